"""Where results are shown beside the report: experiment trackers, each a small class of the group `titjudge.sinks`."""

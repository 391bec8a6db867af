"""Run, resume, merge, verify and replay whole evaluations."""

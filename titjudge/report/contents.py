"""The sections of a report, in their order: a new section is one line here."""

from __future__ import annotations

from collections.abc import Sequence

from titjudge.report.generators import generators
from titjudge.report.matrix import matrix
from titjudge.report.model import Report
from titjudge.report.overview import overview
from titjudge.report.people import people
from titjudge.report.provenance import failures, provenance
from titjudge.report.sections import Block, SearchList, Section, single


def contents(report: Report, files: Sequence[Block] = ()) -> list[Section]:
    """Make the sections that the report has data for.

    Args:
        report: The report.
        files: The blocks that a published board shows instead of the manifests.

    Raises:
        DataError: The baseline of the report is in none of its runs.
    """
    lists = {
        "images": ("prompt, description, reason, name", "Status", bool(report.entries)),
        "prompts": ("prompt, description, name", "Status", any(entry.prompt for entry in report.entries)),
        "pairs": ("prompt, name of an image", "Outcome", bool(report.pairs)),
    }
    sections = (
        overview(report),
        matrix(report),
        people(report),
        generators(report),
        *(
            Section(
                noun,
                noun.capitalize(),
                noun.capitalize(),
                parts=single(SearchList(noun, searched, filter)),
                titled=False,
            )
            for noun, (searched, filter, there) in lists.items()
            if there
        ),
        failures(report),
        provenance(report, files),
    )
    return [section for section in sections if section is not None]

"""The sections of a report, in their order: a new section is one line here."""

from __future__ import annotations

from titjudge.report.generators import generators
from titjudge.report.matrix import matrix
from titjudge.report.model import Report
from titjudge.report.overview import overview
from titjudge.report.people import people
from titjudge.report.provenance import failures, provenance
from titjudge.report.sections import SearchList, Section, single


def contents(report: Report) -> list[Section]:
    """Make the sections that the report has data for.

    Raises:
        DataError: The baseline of the report is in none of its runs.
    """
    sections = (
        overview(report),
        matrix(report),
        people(report),
        generators(report),
        _list("images", "prompt, description, reason, name", "Status", "The chosen image"),
        _list("prompts", "prompt, description, name", "Status", "The chosen prompt with its images"),
        _list("pairs", "prompt, name of an image", "Outcome", "The chosen pair"),
        failures(report),
        provenance(report),
    )
    return [section for section in sections if section is not None]


def _list(noun: str, searched: str, filter: str, chosen: str) -> Section:
    name = noun.capitalize()
    return Section(noun, name, name, parts=single(SearchList(noun, searched, filter, chosen)), titled=False)

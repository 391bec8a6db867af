"""The spec of hosted providers in short, so that the fast tests notice a provider that breaks it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import test_provider_spec as spec
from servers import Scripted, Server

from titjudge.core.types import FailureKind

case = spec.case  # fixture

DUTIES = [
    spec.test_text_answer_with_usage_version_and_endpoint,
    spec.test_image_goes_out_whole_and_before_the_text,
    spec.test_structured_answer_is_asked_for_natively,
    spec.test_structured_prompt_asks_in_words,
    spec.test_output_is_truncated,
    spec.test_retry_after_is_passed_on_in_seconds,
    spec.test_headers_of_each_answer_are_handed_over,
    spec.test_usage_bound_holds,
    spec.test_omitted_parameters_are_not_sent,
]


@pytest.mark.parametrize("duty", DUTIES, ids=lambda duty: duty.__name__.removeprefix("test_"))
def test_the_provider(case: spec.Case, server: Server, duty: Callable[[spec.Case, Server], None]) -> None:
    duty(case, server)


@pytest.mark.parametrize(
    ("status", "kind"), [(529, FailureKind.LATER), (429, FailureKind.RATE_LIMIT), (400, FailureKind.REJECTED)]
)
def test_failures_by_kind(case: spec.Case, server: Server, status: int, kind: FailureKind) -> None:
    spec.test_failures_by_kind_after_one_request(case, server, Scripted.fault(status), kind)


def test_what_a_class_does_not_say_it_does_is_not_asked_for(
    case: spec.Case, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("schema", "tools", "probabilities"):
        monkeypatch.setattr(case.make, name, False)
    able = case.provider(server).capabilities
    assert (able.schema, able.tools, able.probabilities) == (False, False, False)

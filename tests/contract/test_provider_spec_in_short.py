"""The contract of hosted providers in short, so that the fast tests notice a provider that breaks it."""

from collections.abc import Callable

import pytest
from test_provider_spec import EveryProvider

from tests.kit import Scripted, Server
from tests.kit.provider_spec import ProviderCase, ProviderSpec
from titjudge.core.types import FailureKind

SPEC = ProviderSpec()
DUTIES = [
    SPEC.test_text_answer_with_usage_version_and_endpoint,
    SPEC.test_image_goes_out_whole_and_before_the_text,
    SPEC.test_structured_answer_is_asked_for_natively,
    SPEC.test_structured_prompt_asks_in_words,
    SPEC.test_output_is_truncated,
    SPEC.test_limit_of_the_context_is_truncated,
    SPEC.test_retry_after_is_passed_on_in_seconds,
    SPEC.test_headers_of_each_answer_are_handed_over,
    SPEC.test_usage_bound_holds,
    SPEC.test_omitted_parameters_are_not_sent,
]
KINDS = [(529, FailureKind.LATER), (429, FailureKind.RATE_LIMIT), (400, FailureKind.REJECTED)]


class TestInShort(EveryProvider):
    @pytest.mark.parametrize("duty", DUTIES, ids=lambda duty: duty.__name__.removeprefix("test_"))
    def test_the_provider(
        self, case: ProviderCase, server: Server, duty: Callable[[ProviderCase, Server], None]
    ) -> None:
        duty(case, server)

    @pytest.mark.parametrize(("status", "kind"), KINDS)
    def test_failures_by_kind(self, case: ProviderCase, server: Server, status: int, kind: FailureKind) -> None:
        SPEC.test_failures_by_kind_after_one_request(case, server, Scripted.fault(status), kind)

    @pytest.mark.parametrize("finish", ["error", "pause_turn", None])
    def test_answer_that_was_broken_off_is_none(self, case: ProviderCase, server: Server, finish: str | None) -> None:
        SPEC.test_answer_that_was_broken_off_is_none(case, server, finish)

    def test_what_a_class_does_not_say_it_does_is_not_asked_for(
        self, case: ProviderCase, server: Server, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in ("schema", "tools", "probabilities"):
            monkeypatch.setattr(case.make, name, False)
        able = case.provider(server).capabilities
        assert (able.schema, able.tools, able.probabilities) == (False, False, False)

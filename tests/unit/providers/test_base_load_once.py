"""Models of one process load one after the other, each once; what cannot be loaded is not tried again."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from titjudge.core.errors import UserError
from titjudge.core.types import ProviderSettings
from titjudge.providers.learned.provider import Scorer
from titjudge.providers.local.base import LoadOnce
from titjudge.providers.local.huggingface import Local
from titjudge.providers.local.sentence_transformers import SentenceTransformers


def test_no_two_models_load_at_the_same_time() -> None:
    """transformers changes its own classes meanwhile: of two loads that overlap, one may leave them changed."""
    loading = [0]
    most = [0]
    began = threading.Event()

    def load() -> str:
        loading[0] += 1
        most[0] = max(most[0], loading[0])
        if not began.is_set():
            began.set()
            second.wait(0.2)  # time for the other to come in, were it let in
        else:
            second.set()
        loading[0] -= 1
        return "model"

    second = threading.Event()
    one, two = LoadOnce(load), LoadOnce(load)
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(one)
        began.wait(5)
        assert [first.result(), threads.submit(two).result()] == ["model", "model"]
        began.clear()
        second.clear()
        one.drop()
        two.drop()
        assert list(threads.map(lambda load: load(), (one, two))) == ["model", "model"]
    assert most == [1]


def test_threads_that_call_at_once_share_what_the_first_has_loaded() -> None:
    together, tries = threading.Barrier(4), []

    def load() -> object:
        tries.append(1)
        return object()

    model = LoadOnce(load)

    def call(_: int) -> object:
        together.wait(5)
        return model()

    inside = threading.Event()
    slow = LoadOnce(lambda: (inside.wait(0.2), load())[1])
    with ThreadPoolExecutor(4) as threads:
        assert len(set(map(id, threads.map(call, range(4))))) == 1
        assert len(set(map(id, threads.map(lambda _: slow(), range(4))))) == 1
    assert len(tries) == 2


def test_it_loads_once_and_a_broken_one_is_not_tried_again() -> None:
    tries: list[int] = []

    def load() -> str:
        tries.append(1)
        if len(tries) > 1:
            raise UserError("damaged")
        return "model"

    model = LoadOnce(load)
    assert [model(), model(), len(tries)] == ["model", "model", 1]
    model.drop()
    for _ in range(2):
        with pytest.raises(UserError, match="damaged"):
            model()
    assert len(tries) == 2


@pytest.mark.parametrize(
    "model",
    [
        Local(ProviderSettings("x")),
        Scorer(ProviderSettings("pickscore")),
        SentenceTransformers("x", ProviderSettings("x")),
    ],
)
def test_every_kind_of_local_model_loads_this_way(model: Any) -> None:
    assert isinstance(model._loaded, LoadOnce)

"""The example wrappers: their lines through titjudge's own provider, with stand-ins of the official repositories."""

import asyncio
import json
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import tiny_models

from titjudge.core.types import ImageFile, Message, ProviderSettings, Reply, Request
from titjudge.providers.learned.external import External, variable

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "external"


def example(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """An example as a module (it imports its neighbour `protocol`)."""
    import importlib.util

    monkeypatch.syspath_prepend(str(EXAMPLES))
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def answers(name: str, arguments: list[str], prompts: list[str], monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What titjudge gets from a wrapper: a dict for a score, the reason for none."""
    script = EXAMPLES / f"{name}.py"
    monkeypatch.setenv(variable(name), shlex.join([sys.executable, str(script), *arguments]))
    provider = External(ProviderSettings(name))

    def request(number: int, prompt: str) -> Request:
        import io

        buffer = io.BytesIO()
        tiny_models.picture(16, 16, seed=number).save(buffer, "PNG")
        raw = buffer.getvalue()
        shown = ImageFile("0" * 64, "image/png", 16, 16, Path("x.png"), lambda: raw)
        return Request("external", name, (Message("user", (shown, prompt)),))

    async def run() -> list[Any]:
        try:
            asked = [provider.complete(request(n, prompt)) for n, prompt in enumerate(prompts)]
            return await asyncio.gather(*asked, return_exceptions=True)
        finally:
            await provider.aclose()

    return [json.loads(each.text) if isinstance(each, Reply) else str(each) for each in asyncio.run(run())]


@pytest.mark.parametrize("name", ["lmm4lmm", "visionreward", "stand_in"])
def test_each_says_what_it_needs(name: str) -> None:
    shown = subprocess.run(
        [sys.executable, str(EXAMPLES / f"{name}.py"), "--help"], capture_output=True, text=True, check=True
    )
    assert "TITJUDGE_EXTERNAL_" in shown.stdout
    if name != "stand_in":
        assert "You supply" in shown.stdout
        assert "--repository" in shown.stdout
        refused = subprocess.run(
            [sys.executable, str(EXAMPLES / f"{name}.py"), "--repository", "/nowhere", "--weights", "x"],
            capture_output=True, text=True, input="", check=False,
        )  # fmt: skip
        assert refused.returncode == 2
        assert "is no checkout of" in refused.stderr


def test_the_stand_in_shows_the_whole_way(monkeypatch: pytest.MonkeyPatch) -> None:
    found = answers("stand_in", [], ["a red cube", "two\ndogs \u2028"], monkeypatch)
    assert [each["score"] for each in found] == [3, 2]
    assert found[0]["tokens_total"] == 3


def test_what_a_scorer_prints_is_no_answer_and_an_exception_is_one_reason(tmp_path: Path) -> None:
    script = tmp_path / "mine.py"
    script.write_text(
        f"import os, sys\nsys.path.insert(0, {str(EXAMPLES)!r})\nfrom protocol import serve\n"
        "def score(row):\n    print('loading...')\n    os.system('echo noise')\n"
        "    if 'bad' in row['prompt']: raise RuntimeError('too dark')\n"
        "    return {'score': float('nan') if 'nan' in row['prompt'] else 1.5, 'parts': {'a': 2}}\n"
        "serve(score)\n"
    )
    lines = "".join(
        json.dumps({"id": str(n), "prompt": p, "image": "x"}) + "\n" for n, p in enumerate(("a", "bad", "nan"))
    )
    shown = subprocess.run([sys.executable, str(script)], input=lines, capture_output=True, text=True, check=True)
    good, bad, nan = map(json.loads, shown.stdout.splitlines())
    assert (good["score"], good["parts"]) == (1.5, {"a": 2})
    assert (bad["score"], bad["reason"]) == (None, "RuntimeError: too dark")
    assert nan["score"] is None
    assert "noise" in shown.stderr


# -- LMM4LMM -----------------------------------------------------------------------------------------------------------

THEIR_SCRIPT = """
import argparse, csv, json, os
parser = argparse.ArgumentParser()
for name in ("model_name_or_path", "meta_path", "output_file", "conv_style", "max_dynamic_patch"):
    parser.add_argument("--" + name)
given, rest = parser.parse_known_args()
assert given.model_name_or_path == "IntMeGroup/LMM4LMM-Correspondence" and given.conv_style == "internlm2-chat"
assert os.environ["LAUNCHER"] == "pytorch" and os.path.isdir("internvl") and os.path.isdir(os.environ["PYTHONPATH"])
(about,) = json.load(open(given.meta_path)).values()
images = [line.strip() for line in open(about["annotation_infer"]) if line.strip()]
prompts = open(about["img_prompt"]).readlines()
assert len(images) == len(prompts)
print("pred_score", 3)
with open(given.output_file, "w", newline="") as file:
    table = csv.writer(file)
    table.writerow(["imgname", "pred_score"])
    for number, (image, prompt) in enumerate(zip(images, prompts)):
        assert os.path.isfile(os.path.join(about["root"], image))
        if "unreadable" in prompt:  # they score another picture instead
            image, prompt = images[0], prompts[0]
        table.writerow([image, len(prompt.split()) + 0.5])
"""


def lmm4lmm_repository(folder: Path) -> Path:
    train = folder / "LMM4LMM" / "internvl" / "train"
    train.mkdir(parents=True)
    (train / "eval_scores_infer2.py").write_text(THEIR_SCRIPT)
    return folder / "LMM4LMM"


def test_lmm4lmm_runs_their_script_over_the_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ["--repository", str(lmm4lmm_repository(tmp_path)), "--launcher", shlex.quote(sys.executable)]
    found = answers("lmm4lmm", arguments, ["a red\n\ncube", "two dogs", ""], monkeypatch)
    assert [each["score"] for each in found] == [3.5, 2.5, 0.5]


def test_a_picture_that_they_replaced_has_no_score(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ["--repository", str(lmm4lmm_repository(tmp_path)), "--launcher", shlex.quote(sys.executable)]
    first, second, third = answers("lmm4lmm", arguments, ["a red cube", "unreadable", "two dogs"], monkeypatch)
    assert "2 lines for this picture" in first
    assert "0 lines for this picture" in second
    assert third["score"] == 2.5


def test_their_failure_is_everyones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository = lmm4lmm_repository(tmp_path)
    (repository / "internvl" / "train" / "eval_scores_infer2.py").write_text("raise RuntimeError('no flash attention')")
    arguments = ["--repository", str(repository), "--launcher", shlex.quote(sys.executable)]
    (only,) = answers("lmm4lmm", arguments, ["a"], monkeypatch)
    assert "exit code 1" in only


# -- VisionReward ------------------------------------------------------------------------------------------------------


def test_the_reward_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """A "no" to a mask takes its questions out; the masks themselves never count."""
    module = example("visionreward", monkeypatch)
    coef = [2.0, *(float(n) for n in range(1, 28))]  # VQAScore, then questions 3 to 29
    yes = [1] * 30
    whole = 0.5 + 2 * 0.75 + sum(range(1, 28))
    assert module.reward(0.75, yes, coef, 0.5) == pytest.approx(whole)
    hands = [1, 1, -1, *yes[3:]]
    assert module.reward(0.75, hands, coef, 0.5) == pytest.approx(whole - 25)  # question 27 has weight 25
    body = [-1, *yes[1:]]
    assert module.reward(0.75, body, coef, 0.5) == pytest.approx(whole - (20 + 21 + 22 + 26 + 27))
    assert module.reward(0.75, [*yes[:-1], -1], coef, 0.5) == pytest.approx(whole - 2 * 27)
    with pytest.raises(ValueError, match="belong together"):
        module.reward(0.75, yes, coef[:-1], 0.5)
    assert module.flat([[1, 2], [3]]) == [1, 2, 3]


@pytest.mark.parametrize(("said", "wanted"), [("yes<|end_of_text|>", 1), ("No.", -1), (" yes ", 1)])
def test_answers(said: str, wanted: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert example("visionreward", monkeypatch).answer_of(said) == wanted


@pytest.mark.parametrize("said", ["", "perhaps", "yes and no", "<|end_of_text|>"])
def test_an_answer_that_is_neither_is_no_no(said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="neither yes nor no"):
        example("visionreward", monkeypatch).answer_of(said)


def visionreward_repository(folder: Path) -> Path:
    """Modules under the names of the official repository, with answers that need no model."""
    root = folder / "VisionReward"
    files = {
        "sat/__init__.py": "",
        "sat/model/__init__.py": "",
        "sat/model/mixins.py": "class CachedAutoregressiveMixin: pass",
        "utils/__init__.py": "",
        "utils/models.py": """
            from types import SimpleNamespace
            class VisualLlamaEVA:
                image_length = 10
                @classmethod
                def from_pretrained(cls, weights, args):
                    assert args.bf16 and not args.fp16 and args.from_pretrained == weights
                    print("loading", weights)
                    return cls(), SimpleNamespace(eva_args={"image_size": [1344]})
                def eval(self): return self
                def add_mixin(self, name, mixin): assert name == "auto-regressive"
            """,
        "utils/utils.py": """
            from types import SimpleNamespace
            def llama3_tokenizer(path, signal_type): return path
            def get_image_processor(size): assert size == 1344; return size
            def llama2_text_processor_inference(tokenizer, most, length): return SimpleNamespace(invalid_slices=[])
            def chat(image_path, query, **more):
                open(image_path, "rb").close()
                return ("maybe" if query == "broken?" else "yes<|end_of_text|>"), None, None
            """,
        "VisionReward_Image/__init__.py": "",
        "VisionReward_Image/t2v_metrics/__init__.py": "",
        "VisionReward_Image/t2v_metrics/vqascore.py": """
            class VQAScore:
                def __init__(self, model): assert model == "clip-flant5-xxl"
                def __call__(self, images, texts): return [[len(texts[0])]]
            """,
        "VisionReward_Image/VisionReward_image_qa_select.txt": "\n".join(f"question {n}?" for n in range(30)) + "\n",
        "VisionReward_Image/weight_select.json": json.dumps({"coef": [[2.0, *[1.0] * 27]], "intercept": [0.25]}),
    }
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    return root


def test_visionreward_asks_every_question_and_weighs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = visionreward_repository(tmp_path)
    arguments = ["--repository", str(root), "--weights", "/w", "--bf16"]
    found = answers("visionreward", arguments, ["four", "seven77"], monkeypatch)
    assert [each["score"] for each in found] == [0.25 + 2 * 4 + 27, 0.25 + 2 * 7 + 27]
    assert found[0]["parts"] == {"vqascore": 4, "yes": 30}
    questions = root / "VisionReward_Image" / "VisionReward_image_qa_select.txt"
    questions.write_text(questions.read_text().replace("question 7?", "broken?"))
    (none,) = answers("visionreward", arguments, ["four"], monkeypatch)
    assert "neither yes nor no: 'maybe'" in none

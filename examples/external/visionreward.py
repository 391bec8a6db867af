"""VisionReward (images) for titjudge: the authors' model and questions, loaded once for a batch.

You supply
  - a checkout of github.com/zai-org/VisionReward (Apache-2.0) and the environment its README asks for (torch 2.1,
    transformers 4.42.4, SwissArmyTransformer), with a GPU of 80 GB;
  - the weights: THUDM/VisionReward-Image-bf16, unpacked as its README says; the tokenizer of meta-llama/Meta-Llama-3-8B-Instruct
    (gated); zhiqiulin/clip-flant5-xxl, which its VQAScore fetches.

    export TITJUDGE_EXTERNAL_VISIONREWARD="/envs/visionreward/bin/python examples/external/visionreward.py \\
        --repository /src/VisionReward --weights /weights/VisionReward-Image-bf16 --bf16"
    python cli.py judge --data my_images --metric visionreward

The score is intercept + coef . [VQAScore, answers as 1 or -1], where a "no" to one of the first three questions (is there a
body, a face, a hand?) makes the questions about it count 0, and the three themselves are left out. Two things their script does
are mended here: it loads the VQAScore model again for every picture; and it takes a question that failed, or an answer that is
not "yes", for a "no": here an answer that is neither leaves the picture without a score. Not tried with the real weights.
"""

from __future__ import annotations

import argparse
import json
import operator
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from protocol import Row, serve

MASKS = {0: (22, 23, 24, 28, 29), 1: (25, 26), 2: (27,)}  # question: those that count only where it is a "yes"


def answer_of(said: str) -> int:
    """1 or -1.

    Raises:
        ValueError: the answer is neither yes nor no.
    """
    word = said.replace("<|end_of_text|>", "").strip().strip(".").lower()
    if word not in ("yes", "no"):
        raise ValueError(f"an answer is neither yes nor no: {said[:60]!r}")
    return 1 if word == "yes" else -1


def reward(alignment: float, answers: Sequence[int], coef: Sequence[float], intercept: float) -> float:
    """VisionReward of one picture: `alignment` is VQAScore, `answers` are 1 or -1, one for each question."""
    masked = list(answers)
    for mask, about in MASKS.items():
        for question in about:
            masked[question] *= int(answers[mask] > 0)
    counted = [alignment, *(value for number, value in enumerate(masked) if number not in MASKS)]
    if len(counted) != len(coef):
        raise ValueError(f"{len(coef)} weights for {len(counted)} numbers: weights and questions belong together")
    return intercept + sum(map(operator.mul, counted, coef))


def flat(value: Any) -> list[float]:
    """The numbers of a list of lists, in order."""
    return [number for each in value for number in flat(each)] if isinstance(value, list) else [float(value)]


def read_files(questions: Path, weights: Path) -> tuple[list[str], list[float], float]:
    """(questions, coef, intercept) of the authors' two files."""
    asked = [each.strip() for each in questions.read_text(encoding="utf-8").splitlines() if each.strip()]
    about: dict[str, Any] = json.loads(weights.read_text(encoding="utf-8"))
    return asked, flat(about["coef"]), flat(about["intercept"])[0]


class Official:
    """The authors' model: `alignment` and `ask`."""

    def __init__(self, given: argparse.Namespace) -> None:
        sys.path.insert(0, str(given.repository.resolve()))
        from sat.model.mixins import CachedAutoregressiveMixin
        from utils.models import VisualLlamaEVA
        from utils.utils import chat, get_image_processor, llama2_text_processor_inference, llama3_tokenizer
        from VisionReward_Image.t2v_metrics.vqascore import VQAScore

        settings = argparse.Namespace(
            deepspeed=None, local_rank=0, rank=0, world_size=1, model_parallel_size=1, mode="inference", skip_init=True,
            use_gpu_initialization=True, device="cuda", version="vqa", quant=None, stream_chat=False, fp16=not given.bf16,
            bf16=given.bf16, max_length=3328, from_pretrained=str(given.weights), tokenizer_path=given.tokenizer,
            top_p=0.4, top_k=1, temperature=0.8,
        )  # fmt: skip
        model, about = VisualLlamaEVA.from_pretrained(str(given.weights), args=settings)
        self._model = model.eval()
        self._model.add_mixin("auto-regressive", CachedAutoregressiveMixin())
        self._pictures = get_image_processor(about.eva_args["image_size"][0])
        tokenizer = llama3_tokenizer(given.tokenizer, signal_type="vqa")
        self._texts = llama2_text_processor_inference(tokenizer, settings.max_length, model.image_length)
        self._chat, self._settings, self._vqascore = chat, settings, VQAScore(model="clip-flant5-xxl")

    def alignment(self, image: str, prompt: str) -> float:
        return float(self._vqascore(images=[image], texts=[prompt])[0][0])

    def ask(self, image: str, question: str) -> str:
        said, _, _ = self._chat(
            image_path=image, image=None, model=self._model, text_processor=self._texts, img_processor=self._pictures,
            query=question, max_length=3328, top_p=0.4, temperature=0.8, top_k=1,
            invalid_slices=self._texts.invalid_slices, args=self._settings,
        )  # fmt: skip
        return str(said)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repository", type=Path, required=True, help="Checkout of zai-org/VisionReward.")
    parser.add_argument("--weights", type=Path, required=True, help="Folder of VisionReward-Image, unpacked.")
    parser.add_argument("--tokenizer", default="meta-llama/Meta-Llama-3-8B-Instruct", help="Folder or name on the hub.")
    parser.add_argument("--bf16", action="store_true", help="For the bf16 weights  [default: fp16].")
    given = parser.parse_args()
    files = given.repository / "VisionReward_Image"
    if not (files / "weight_select.json").is_file():
        parser.error(
            f"{given.repository} is no checkout of zai-org/VisionReward (no VisionReward_Image/weight_select.json)"
        )
    questions, coef, intercept = read_files(files / "VisionReward_image_qa_select.txt", files / "weight_select.json")
    official: list[Official] = []

    def score(row: Row) -> Row:
        if not official:
            official.append(Official(given))
        model = official[0]
        answers = [answer_of(model.ask(row["image"], question)) for question in questions]
        alignment = model.alignment(row["image"], row["prompt"])
        found = reward(alignment, answers, coef, intercept)
        return {"score": found, "parts": {"vqascore": alignment, "yes": sum(each > 0 for each in answers)}}

    serve(score)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

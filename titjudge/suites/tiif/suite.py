"""TIIF-Bench: 39 types of prompts, short and long, judged with yes/no questions (arXiv paper; repository @3aae750)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from titjudge.core import item_meta
from titjudge.core.errors import ConfigError, DataError, must_be
from titjudge.core.types import InvalidItem, Item, Items, Json, Score, Table
from titjudge.data.data_paths import inside
from titjudge.metrics.ocr import words_from_questions
from titjudge.suites.base import Suite, SuiteInputs, judged
from titjudge.suites.patterns import GENERATOR, PromptPlace
from titjudge.suites.samples import split_sample
from titjudge.suites.tiif import dataset
from titjudge.suites.tiif.answers import METRIC, AnswerCounts, AnswerProblem, results, tables, write_answers
from titjudge.suites.tiif.layout import LENGTHS, SIZES, TYPES, TypeCounts
from titjudge.suites.tiif.text_rendering import METRICS as TEXT_METRICS
from titjudge.suites.tiif.text_rendering import text_table, write_ocr


class Tiif(Suite):
    """TIIF-Bench: yes / no questions on 39 types of instruction, short and long.

    Args:
        subset: "full" (2,538 prompts), "testmini" (277) or "auto": the one there, or the one that fits the images.
        images: The image tree, if it is not in the data folder itself or one below it.
        postfix: The text after the type in the names of the image folders (upstream's --postfix).
        sample_idx_file: `{type: [number, ...]}`: only these prompts, images numbered as the files (upstream's option).
        template: 1, 2, 3 or "random" instead of the protocol's choice.
        seed: Of the random choice of templates.
    """

    name = "tiif"
    metrics = (METRIC, "text-rendering")
    DEVIATIONS = (
        "rank correlation (A4.2) is SRCC with mean ranks of ties (`judges ranks`). Without ties it equals the paper's 1 - 6 sum d^2 / "
        "n(n^2 - 1)",
        "official: the template is drawn as upstream does (at every call, among three) but from item id, seed and try, "
        "so that a run can be repeated; strict: always the template that the paper shows (A3.2), at temperature 0",
        "three tries for a reply with another number of answers (strict: of the same question, at temperature 0), then the "
        "item is unparsed; upstream tries for ever",
        "strict: text before </think> is not an answer, and a reply with a line such as `yes/no` or `no "
        "idea` is not read; official: both count as answers, as upstream",
        "a reply without a word is an outage: it is asked for three times, then the image fails, and the next run asks again",
        "images are sent with their media type; upstream declares every image as PNG",
        "answer files that cannot be read, or in which a question has no yes or no, are reported and not scored; upstream "
        "prints or counts as wrong, and cuts lists of different length to the shorter",
        "several images for one prompt (0_0.png, 0_1.png, or one number with several suffixes) are all judged, and the prompt "
        "counts with their mean; upstream takes the first that the file system names",
        "Overall, Basic and Advanced follow the published scripts (mean of 9 dimensions, 12 types, 26 types; "
        "missing values are left out), which Table 2 of the paper does not; next to them are the same means of types in which "
        "each image counts once (3.3), not each question",
        "text rendering reads images with rapidocr; upstream with PaddleOCR. An OCR result that cannot be read is an error; "
        "upstream scores it as perfect (GNED 0)",
        "text rendering runs along, on the images whose prompts ask for words (it needs the extra ocr); upstream it is a "
        "separate script. In the metric text-rendering-vlm, a vision model reads instead of OCR",
        "official: max_tokens 2,048 is sent, and a cut answer has no score; upstream sends no limit. strict: keeps upstream's "
        "system message, which the paper's A3.2 does not show",
        "a detector can judge beside the model (A4.3): the metric yes-no-detector answers the questions on existence, number and side "
        "that its rules can read, 4,558 of 12,160; it enters none of the official tables. Thresholds are the paper's (0.7), for any "
        "detector of `--set detector=MODEL`; UniDet is not included",
        "people's side of Tables A4 and A5 cannot be recomputed, because the paper prints no ranks; `label --mode rank` repeats its user study",
        "lengths and uniqueness of prompts are in `prompts audit`; a t-SNE of their embeddings is not",
        "A7.2's set-up of vLLM with four GPUs was not run here",
        "not included of the paper: direct counting questions (A4.3.2), the novel objects there, and CompBench++ by one coarse question (A4.2)",
        "this is the first version of the benchmark (@3aae750), not the second that its page announces",
        "values are not rounded; upstream rounds type accuracies to four decimals before it averages them",
    )

    def __init__(
        self,
        inputs: SuiteInputs = SuiteInputs(),
        *,
        subset: str = "auto",
        images: Path | str | None = None,
        postfix: str = "",
        sample_idx_file: Path | str | None = None,
        template: int | str | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(inputs)
        if subset not in ("auto", "full", "testmini"):
            raise ConfigError(must_be("subset", "auto, full or testmini", subset))
        choices: dict[str, int | str] = {str(choice): choice for choice in (1, 2, 3, "random")}
        if template is not None and str(template) not in choices:
            raise ConfigError(must_be("template", "1, 2, 3 or random", template))
        if not str(seed).lstrip("-").isdigit():
            raise ConfigError(must_be("seed", "a whole number", seed))
        self._subset, self._postfix = subset, postfix
        self._images = Path(images) if images else None
        self._sample = Path(sample_idx_file) if sample_idx_file else None
        self._extra: Json = {"template_seed": int(seed)}
        if template is not None:
            self._extra["template"] = choices[str(template)]

    def load(self, folder: Path) -> Items:
        """Yield an item for each generator, prompt and length; one without a usable image is an InvalidItem.

        `id` is `<generator>/<type>/<length>/<number>`, `prompt_id` the same without the generator. `meta`: type, length,
        index, questions, gold_answers, set, numbering, and text_words if the questions ask for words.

        Raises:
            DataError: Prompts or questions are malformed, nothing is found, or numberings are mixed.
        """
        subset, place = dataset.find_set(folder, self._subset)
        top = self._images or dataset.find_images(folder, self._postfix)
        tree = dataset.read_images(top, self._postfix)
        if subset == "both":
            mini = SIZES["testmini"]  # full if a type has more images than testmini has prompts
            more = any(len(images.by_number) > mini[kind] for (_, kind, _), images in tree.items())
            subset = "full" if self._sample or more else "testmini"
        lines = dataset.read_set(place, subset)
        if self._sample:
            lines, how = dataset.sampled(lines, self._sample), "file"
        else:
            if subset == "testmini":
                lines = dataset.with_full_numbers(lines, place)
            how = dataset.numbering(lines, tree, subset, top)
        extra = {item_meta.SET.name: "sample" if self._sample else subset, "numbering": how, **self._extra}
        yield from _items(lines, tree, extra, self.image_roots)

    def prompts(self, folder: Path) -> Iterator[PromptPlace]:
        """Yield the prompts of the set, each short and long, numbered as in its files.

        Raises:
            DataError: There is no set, or two and `subset` does not choose one.
        """
        subset, place = dataset.find_set(folder, self._subset)
        if subset == "both":
            raise DataError("the folder has both sets. Add --suite-option subset=full or subset=testmini", folder)
        lines = dataset.read_set(place, subset)
        if self._sample:
            lines = dataset.sampled(lines, self._sample)
        top, how = folder / "images", "file"
        if self._images or any((folder / part).is_dir() for part in ("images", *TYPES)):  # beside images that are there
            with suppress(DataError):
                top = self._images or dataset.find_images(folder, self._postfix)
                how = dataset.numbering(lines, dataset.read_images(top, self._postfix), subset, top)
        below = top.relative_to(folder) if top.is_relative_to(folder) else Path()
        for kind, of_kind in lines.items():
            for line in of_kind:
                number = line.numbered(how)
                for length in LENGTHS:
                    image = below / f"{kind}{self._postfix}" / GENERATOR / f"{length}_description" / f"{number}.png"
                    fields = {"length": length}
                    yield PromptPlace(f"{kind}/{length}/{number}", line.prompt(length), image.as_posix(), fields)

    def aggregate(self, items: Sequence[Item], scores: Sequence[Score]) -> list[Table]:
        """Make the tables of `suites aggregate tiif` from the scores of a run, and the table of GNED if text was read."""
        text = text_table(items, scores)
        return [*tables(self.summary(items, scores)), *([text] if text else [])]

    def write_official(self, items: Sequence[Item], scores: Sequence[Score], folder: Path) -> int:
        """Write the tree of answers into `eval_results`, and, if words were read, `ocr/GENERATOR.json`."""
        read = [score for score in scores if score.metric in TEXT_METRICS and score.value is not None]
        count = write_answers(folder / "eval_results", items, scores, overwrite=True)
        return count + (write_ocr(items, read, folder / "ocr") if read else 0)

    def summary(self, items: Sequence[Item], scores: Sequence[Score]) -> Json:
        """Compute the object of `suites aggregate tiif --json` from the scores of a run.

        Coverage is against the published size of the set, or of a sample against its prompts. Several images of a prompt
        count as one, with their mean.
        """
        hits: dict[tuple[str, str, str, str], list[tuple[float, int]]] = {}
        expected: dict[tuple[str, str], Mapping[str, int]] = {}
        kinds: dict[tuple[str, str], dict[str, str]] = {}
        for item in items:
            key = item.generator, item_meta.LENGTH.required(item)
            kinds.setdefault(key, {})[item.prompt_id] = item_meta.TYPE.required(item)
            expected[key] = SIZES.get(item_meta.SET.get(item, ""), {})
        for key, by_prompt in kinds.items():  # of a sample, the prompts of the sample
            expected[key] = expected[key] or Counter(by_prompt.values())
        answers = AnswerCounts({key: {} for key in kinds})
        for item, score in judged(items, scores, METRIC):
            kind, length = item_meta.TYPE.required(item), item_meta.LENGTH.required(item)
            if score.value is None:
                reason = f"{score.status}: {score.reason}"
                answers.problems.append(AnswerProblem(score.item_id, reason, item.generator, length))
                continue
            preds, gold = score.parts.get("preds"), item_meta.GOLD_ANSWERS.required(item)
            if preds is None or "samples" in score.parts:  # a panel's votes, or several of one judge
                right = score.value * len(gold)
            else:
                right = sum(a == b for a, b in zip(preds, score.parts["gold"], strict=True))
            hits.setdefault((item.generator, length, kind, item.prompt_id), []).append((right, len(gold)))
        for (generator, length, kind, _), images in hits.items():
            correct = [right for right, _ in images]
            answers.cells[generator, length].setdefault(kind, TypeCounts()).add(
                sum(correct) / len(correct) if len(correct) > 1 else correct[0], images[0][1]
            )
        return results(answers, expected)


def _items(lines: dataset.Lines, tree: dataset.Tree, extra: Json, roots: Sequence[Path]) -> Items:
    lengths = [length for length in LENGTHS if any(key[2] == length for key in tree)]
    for generator in sorted({key[0] for key in tree}):
        for length in lengths:
            for kind in lines:
                images = tree.get((generator, kind, length), dataset.Images())
                yield from _folder_items(generator, kind, length, lines[kind], images, extra, roots)
            for kind in sorted({key[1] for key in tree if key[0] == generator and key[2] == length} - lines.keys()):
                yield _invalid(
                    generator, f"{kind}/{length}", "the suite has no prompts of this type. Rename the folder"
                )


def _invalid(generator: str, prompt_id: str, reason: str) -> InvalidItem:
    return InvalidItem(f"{generator}/{prompt_id}", reason, generator, prompt_id)


def _folder_items(
    generator: str,
    kind: str,
    length: str,
    lines: Sequence[dataset.DatasetLine],
    images: dataset.Images,
    extra: Json,
    roots: Sequence[Path],
) -> Items:
    """Yield the items of one type, with images numbered by `extra["numbering"]`."""
    how = extra["numbering"]
    place, group = f"{kind}/{generator}/{length}_description", f"{kind}/{length}"
    if how == "full" and any(line.full is None for line in lines):
        reason = f"{place} is numbered as the full set. Add test_prompts and test_eval_prompts, or use the numbers of testmini"
        for line in lines:
            yield InvalidItem(f"{generator}/{group}/line-{line.number}", reason, generator, group)
        return
    unused = set(images.by_number)
    for line in lines:
        number = line.numbered(how)
        unused.discard(number)
        prompt_id = f"{group}/{number}"
        if number not in images.by_number:
            yield _invalid(generator, prompt_id, f"{place}/{number}.png, .jpg, .jpeg or .webp is missing. Add it")
            continue
        meta = {
            item_meta.TYPE.name: kind,
            item_meta.LENGTH.name: length,
            item_meta.INDEX.name: number,
            **_question_meta(line),
            **extra,
        }
        for position, image in enumerate(images.by_number[number], 1):
            top = image.parents[3]
            name = f"{generator}/{prompt_id}" + (f" ({position})" if position > 1 else "")
            numbered = split_sample(image.stem)
            sample = numbered[1] if numbered else position - 1
            try:
                inside(top, image.relative_to(top).as_posix(), roots=roots)
                yield Item(name, line.prompt(length), image, generator, prompt_id, meta, sample)
            except DataError as error:
                yield InvalidItem(name, error.message, generator, prompt_id)
    for number in () if extra[item_meta.SET.name] == "sample" else sorted(unused):
        yield _invalid(
            generator, f"{group}/{number}", f"{place}: image {number}: there is no prompt of this number. Rename it"
        )
    for file in images.unplaced:
        yield _invalid(generator, f"{group}/{file}", f"{place}/{file}: the name must be the number of a prompt")


def _question_meta(line: dataset.DatasetLine) -> Json:
    words = words_from_questions(line.questions)
    meta = {item_meta.QUESTIONS.name: list(line.questions), item_meta.GOLD_ANSWERS.name: list(line.gold)}
    return meta | ({item_meta.TEXT_WORDS.name: words} if words else {})

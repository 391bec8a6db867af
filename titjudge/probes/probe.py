"""Run the battery over a judge, through an engine, and write its card.

Self-preference: models describe the same images and judge each other's descriptions.

The excess of a judge J is how much higher it scores J's text than another model's text on the same image, minus the same
difference by another judge K: (own by J - other by J) - (own by K - other by K), each judge's scores in units of that
judge's span. The other text comes from a third author if there is one, so that K's preference for K's texts does not
enter; with two authors it is K's, and the effect is the sum of both preferences.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

from titjudge.core import item_meta
from titjudge.core.errors import DataError
from titjudge.core.grouping import grouped
from titjudge.core.score_parts import description, duels, predictions
from titjudge.core.types import Item, Note, Pair, Score, Status
from titjudge.engine.ask import Purpose, Sample
from titjudge.engine.pipeline import Engine
from titjudge.metrics import Metric
from titjudge.metrics.tit_aligned import content_words, share_found, terms
from titjudge.probes import battery
from titjudge.probes.battery import ROBUST, Test, Trial
from titjudge.probes.item_scorer import Prober, versions_of
from titjudge.probes.prompt_edits import KINDS
from titjudge.probes.trust_card import FEWEST, Line, line, untested, with_verdicts
from titjudge.report.card_record import CardRecord, LimitRule
from titjudge.stats.equality import same
from titjudge.suites.known_answer.suite import DONE, WRONG, KnownAnswer, is_known_edits, known_edits

SELF_PREFERENCE = "self-preference"
_untested = partial(untested, "is not bribed", SELF_PREFERENCE, LimitRule.AT_MOST, ROBUST)
Scores = Mapping[str, float]  # item -> score, in spans of the judge
_SAME = {"o": "gpt", "chatgpt": "gpt", "gemma": "gemini", "qwq": "qwen", "qvq": "qwen"}


def family(model: str) -> str:
    """Return the family of `provider/model`: the first word of the model's name, with known aliases as one.

    >>> family("openai/gpt-6-luna") == family("litellm/openai/gpt-6.1-sol")
    True
    """
    word = re.match(r"[a-z]*", model.rpartition("/")[2].lower())
    name = word[0] if word else ""
    return _SAME.get(name, name) or model


def excess(scores: Mapping[tuple[str, str], Scores], judge: str, groups: Mapping[str, str]) -> list[tuple[str, float]]:
    """Compute (prompt, excess) of each image.

    Args:
        scores: Scores by (judge, author); every judge is an author, too.
        judge: The judge.
        groups: Item -> prompt.
    """
    judges = {name for name, _ in scores}
    authors = {author for _, author in scores}
    rows = []
    for item, group in groups.items():
        effects = []
        for outsider in judges - {judge}:
            for other in (authors - {judge, outsider}) or {outsider}:
                cells = [scores[who, author].get(item) for who in (judge, outsider) for author in (judge, other)]
                if None not in cells:
                    own_by_judge, other_by_judge, own_by_outsider, other_by_outsider = (cell or 0.0 for cell in cells)
                    effects.append((own_by_judge - other_by_judge) - (own_by_outsider - other_by_outsider))
        if effects:
            rows.append((group, sum(effects) / len(effects)))
    return rows


async def exchange(probed: Prober, items: Sequence[Item], rivals: Sequence[str]) -> Line:
    """Compute the line of the judge that is probed (the role `judge`) against the models of the roles `rivals`.

    Each of these models describes every image and judges every description. The model of the role `captioner` is the
    third author if it is of another family.
    """
    engine = probed.engine
    open_roles = {name: engine.roles[name] for name in ("judge", *rivals)}
    families = {name: family(role.label) for name, role in open_roles.items()}
    others = [name for name in rivals if families[name] != families["judge"]]
    if not others:
        return _untested(note="needs two families: name a second --judge of another family")
    blind = [open_roles[r].label for r in ("judge", *others) if not open_roles[r].provider.capabilities.images]
    if blind:
        return _untested(note=f"{blind[0]} cannot see images, so it writes no descriptions")
    judges = ["judge", *others]
    third = family(engine.roles["captioner"].label) not in [families[name] for name in judges]
    authors = [*judges, "captioner"] if third else judges
    scores: dict[tuple[str, str], Scores] = {}
    reach = {}
    for judge in judges:
        runs = {author: await _judged(probed, items, judge, author) for author in authors}
        span = sum(run.span(items) for run in runs.values()) / len(runs)
        scores |= {(judge, author): _in_spans(run, items, span) for author, run in runs.items()}
        reach[judge] = max(run.reach(span) for run in runs.values())
    rows = excess(scores, "judge", {item.id: item.prompt_id for item in items})
    against = ", ".join(open_roles[role].label for role in others)
    note = f"against {against}" + ("" if third or len(others) > 1 else "; the two judges cannot be distinguished")
    return line(
        "is not bribed",
        SELF_PREFERENCE,
        rows,
        rule=LimitRule.AT_MOST,
        limit=ROBUST,
        failed=len(items) - len(rows),
        note=note,
        reach=reach["judge"] + max(reach[name] for name in others),
    )


async def _judged(probed: Prober, items: Iterable[Item], judge: str, author: str) -> Prober:
    engine = probed.engine
    alias = {"captioner": author, "judge": judge}
    run = Prober(engine, probed.name, probed.metric, probed.on_score, alias=alias)
    mark = f"#told by {engine.roles[author].label}, judged by {engine.roles[judge].label}"
    await run.score([replace(item, id=f"{item.id}{mark}") for item in items])
    probed.stopped = probed.stopped or run.stopped
    run.scores = {key.removesuffix(mark): score for key, score in run.scores.items()}
    return run


def _in_spans(run: Prober, items: Sequence[Item], span: float) -> Scores:
    """Return a judge's scores of one author's texts in units of its span, which is the mean over the authors."""
    return {item.id: value / span for item in items if (value := run.value(item)) is not None}


ACCURATE = 0.7  # least share of right answers
ORDER = 0.1  # greatest advantage of the image that is shown first
UNUSABLE = 0.05  # greatest share of refusals, and of answers that cannot be parsed
UNRECORDED = "no answer is recorded for what was changed"
Result = Line | tuple[str, str]  # of a test: its line, or its name and why this judge cannot take it


async def probe(
    engine: Engine,
    name: str,
    metric: Metric,
    data: Path,
    work: Path,
    *,
    repeats: int = 3,
    edits: int = battery.MOST,
    pairwise: Metric | None = None,
    rivals: Sequence[str] = (),
    on_score: Any = None,
    on_items: Any = None,
) -> CardRecord:
    """Probe a judge and return its card.

    Args:
        engine: Asks the models.
        name: Name of the metric.
        metric: The metric whose models are probed.
        data: A known-answer folder, or one of known edits, whose card has special lines.
        work: Folder for changed images.
        repeats: How often the same question is asked to measure the difference between repetitions.
        edits: Errors of each kind planted in the prompt for each image, one at a time.
        pairwise: A pairwise metric of the same judge, for the order effect: it compares the image with `ask.siblings`
            and keeps `shown_first` and `shown_second`, 0 to 1, in each of its `parts["duels"]`.
        rivals: Further roles whose models describe the images and judge, for the self-preference.
        on_score: Called with each score.
        on_items: Called with the items that are judged.

    Raises:
        DataError: The folder has no known answers, or the metric does not judge its content.
        FatalProviderError, ConfigError: As the engine raises them.
    """
    if is_known_edits(data):
        return await _probe_edits(engine, name, metric, known_edits(data), on_score, on_items)
    truth = [item for item in KnownAnswer().load(data) if isinstance(item, Item)]
    if not truth:
        raise DataError("no image has known answers. Give --data a folder of `probe images`", data)
    items = [battery.adherence_item(item) for item in truth]
    run = Prober(engine, name, metric, on_score, prompts=len({item.prompt_id for item in items}))
    await run.score(items)
    tests, skipped = await _tests(run, items, work, edits)
    if on_items:
        on_items([*items, *_distinct(tests)])
    await run.score(_distinct(tests))
    await _repeat(run, items, repeats)
    span = run.span(items)
    results: list[Result] = [*await _accuracy(run, truth, items, KnownAnswer().pairs(data))]
    results += [*_errors(run, tests), *(_tested(run, test, span) for test in tests)]
    results += [_spread(run, items, repeats, span), *_failures(run.scores.values())]
    costs = _costs(run)
    results.append(await _order(run, pairwise, items))
    if "judge" in metric.roles and _described(run, items):
        results.append(await exchange(run, items, rivals))
    else:
        skipped[SELF_PREFERENCE] = "this metric has no judge that reads what models write"
    lines = with_verdicts([result for result in results if isinstance(result, Line)])
    return _card(run, lines, span, skipped | dict(result for result in results if not isinstance(result, Line)), costs)


async def _probe_edits(
    engine: Engine, name: str, metric: Metric, items: Sequence[Item], on_score: Any, on_items: Any
) -> CardRecord:
    """Return the card of a judge of edits: how often it puts what is done above every other outcome."""
    if not items:
        raise DataError("no edit has a known outcome. Make edits with `probe images --edits`")
    if problem := metric.sources_problem(items[0]):
        raise DataError(f"known edits: {problem}. Choose another metric")
    if on_items:
        on_items(items)
    run = Prober(engine, name, metric, on_score, prompts=len({item.prompt_id for item in items}))
    await run.score(items)
    lines = [*(_outcome(run, items, outcome) for outcome in WRONG), *_failures(run.scores.values())]
    return _card(run, with_verdicts(lines), None, {}, _costs(run))


def _outcome(run: Prober, items: Sequence[Item], outcome: str) -> Line:
    """Measure how often the done edit scores higher than one with another outcome (a tie is half)."""
    done = {item.prompt_id: item for item in items if item.generator == DONE}
    wrong = [item for item in items if item.generator == outcome and item.prompt_id in done]
    rows = _found_out(run, [Trial(done[item.prompt_id], item) for item in wrong])
    return _share(f"{WRONG[outcome]}, share put below done", rows, len(wrong), "edits", battery.FOUND)


async def _tests(run: Prober, items: Sequence[Item], work: Path, edits: int) -> tuple[list[Test], dict[str, str]]:
    """Return the tests that this judge can take, and the names of the others with the reason."""
    skipped: dict[str, str] = {}
    tests = battery.severity(items)
    if "questions" in run.metric.needs:
        skipped |= dict.fromkeys(KINDS, "the questions of this metric do not depend on the prompt")
    else:
        tests += battery.sensitivity(items, edits)
    tests.append(battery.instructions(items))
    first = await asyncio.to_thread(battery.changed_images, (battery.attacked(items) or items)[:1], work)
    await run.score(_distinct(first))
    if all(run.scores[trial.changed.id].status is Status.MISSING for test in first for trial in test.trials):
        skipped |= {test.name: UNRECORDED for test in first}
    else:
        tests += await asyncio.to_thread(battery.changed_images, items, work)
    if described := _described(run, items):
        tests += battery.descriptions(described)
    else:
        skipped["description"] = "this metric reads no description"
    return tests, skipped


def _described(run: Prober, items: Iterable[Item]) -> list[tuple[Item, str]]:
    """Return the items that the metric judged by a description, with the description."""
    return [(item, text) for item in items if (text := description(run.scores[item.id].parts))]


def _distinct(tests: Iterable[Test]) -> list[Item]:
    return list(
        {item.id: item for test in tests for trial in test.trials for item in (trial.base, trial.changed)}.values()
    )


async def _repeat(run: Prober, items: Sequence[Item], repeats: int) -> None:
    for k in range(1, repeats):
        again = [replace(item, id=_repeated(item, k)) for item in battery.attacked(items)]
        await run.score(again, Sample(k, purpose=Purpose.PROBE))


def _repeated(item: Item, k: int) -> str:
    return f"{item.id}#again {k}" if k else item.id


async def _accuracy(run: Prober, truth: Sequence[Item], items: Sequence[Item], pairs: Sequence[Pair]) -> list[Line]:
    """Measure the share of right answers: to the metric's questions if it asks any, otherwise on pairs (a tie is half)."""
    if "gold_answers" in run.metric.needs:
        exam = [replace(item, id=f"{item.id}#exam") for item in truth]
        await run.score(exam)
        return [_exam(run, exam, answer) for answer in ("yes", "no")]
    decided = [pair for pair in pairs if pair.preference != "tie"]
    rows = []
    for pair in decided:
        a, b = run.value(pair.a), run.value(pair.b)
        if a is not None and b is not None:
            rows.append((pair.prompt_id, _right(a, b) if pair.preference == "a" else _right(b, a)))
    return [_share("known pairs, share right", rows, len(decided))]


def _exam(run: Prober, exam: Sequence[Item], answer: str) -> Line:
    """Measure the share of right answers to questions with one gold answer: always answering yes shows no knowledge."""
    rows, failed = [], 0
    for item in exam:
        score = run.scores[item.id]
        if score.value is None:
            failed += 1
            continue
        for gold, predicted in zip(item_meta.GOLD_ANSWERS.required(item), predictions(score.parts), strict=False):
            if gold == answer:
                rows.append((item.prompt_id, float(predicted == gold)))
    return _share(f"known answers that are '{answer}', share right", rows, len(rows) + failed)


def _right(better: float, worse: float) -> float:
    return 0.5 if same(better, worse) else float(better > worse)


def _share(
    name: str, rows: Sequence[tuple[str, float]], total: int, family: str = "sees", limit: float = ACCURATE
) -> Line:
    failed = total - len(rows)
    return line(family, name, rows, rule=LimitRule.AT_LEAST, limit=limit, failed=failed, bounds=(0, 1))


def _errors(run: Prober, tests: Sequence[Test]) -> list[Result]:
    """Measure how often an image scores higher with its prompt than with an error in it (a tie is half).

    Over all errors, and by kind and by half of the prompt, so that a judge that is blind to some is found out: its effect
    of 0 spans is near the limit of the lines of effects, its share of 0.5 is far below the limit of these lines.
    """
    single = {test.name: test.trials for test in tests if test.name in KINDS}
    trials = [trial for group_trials in single.values() for trial in group_trials]
    name = "prompts with an error, share found out"
    rows = _found_out(run, trials)
    if not rows:
        return [(name, _unable(run, [trial.changed for trial in trials]))]
    halves = {
        f"{half} half of the prompt": [trial for trial in trials if trial.half == k]
        for k, half in enumerate(("first", "second"))
    }
    results: list[Result] = [_share(name, rows, len(trials)), *_beyond_words(run, trials)]
    for family, groups in (("finds out", single), ("reads all", halves)):
        for group, some in groups.items():
            if len({trial.base.prompt_id for trial in some}) >= min(FEWEST, run.prompts):
                group_rows = _found_out(run, some)
                results.append(
                    _share(f"{group}, share of errors found out", group_rows, len(some), family, battery.FOUND)
                )
    return results


def _beyond_words(run: Prober, trials: Sequence[Trial]) -> Iterable[Line]:
    """Measure how many more errors a judge finds out than a count of the prompt's words in the description.

    An error mostly brings a word that is nowhere in the description, so a judge that is hardly better does not read.
    """
    rows = []
    for trial in trials:
        text = description(run.scores[trial.base.id].parts)
        if text and (found := _found_out(run, [trial])):
            known = set(terms(content_words(text), 0))
            before, after = (share_found(item.prompt, known, 0) or 0.0 for item in (trial.base, trial.changed))
            rows.append((trial.base.prompt_id, found[0][1] - _right(before, after)))
    if rows:
        limit, failed = battery.MORE_THAN_WORDS, len(trials) - len(rows)
        name = "errors found out beyond the bag of words"
        yield line("reads all", name, rows, rule=LimitRule.AT_LEAST, limit=limit, failed=failed, bounds=(-1, 1))


def _found_out(run: Prober, trials: Iterable[Trial]) -> list[tuple[str, float]]:
    """Return (prompt, whether the error was found out) of the trials that have both scores; a tie is half."""
    values = [(trial.base.prompt_id, run.value(trial.base), run.value(trial.changed)) for trial in trials]
    return [(prompt_id, _right(a, b)) for prompt_id, a, b in values if a is not None and b is not None]


def _tested(run: Prober, test: Test, span: float) -> Result:
    """Compute the line of a test from the scores of its trials."""
    rows = []
    for trial in test.trials:
        before, after = run.value(trial.base), run.value(trial.changed)
        if before is not None and after is not None:
            rows.append(
                (trial.base.prompt_id, (before - after if test.rule == LimitRule.AT_LEAST else after - before) / span)
            )
    failed = len(test.trials) - len(rows)
    if not rows and (reason := _unable(run, _distinct([test]))):
        return test.name, reason
    prompts = len({trial.base.prompt_id for trial in test.trials})
    if prompts < FEWEST <= run.prompts:
        return test.name, f"only {prompts} of the {run.prompts} prompts have such a case"
    return line(test.family, test.name, rows, rule=test.rule, limit=test.limit, failed=failed, reach=run.reach(span))


def _unable(run: Prober, items: Sequence[Item]) -> str:
    """Return why none of these items could be scored, if that is not the judge's fault; otherwise an empty string."""
    if not items:
        return "the known answers have no such case"
    failed = [run.scores[item.id] for item in items if run.value(item) is None]
    unable = [score.reason for score in failed if score.status is Status.BAD_INPUT]
    if failed and all(score.status is Status.MISSING for score in failed):
        return UNRECORDED
    return unable[0] if unable else ""


def _spread(run: Prober, items: Sequence[Item], repeats: int, span: float) -> Result:
    """Measure the mean absolute difference between two answers to the same question."""
    rows, failed = [], 0
    for item in battery.attacked(items):
        values = [value for k in range(repeats) if (value := run.value(_repeated(item, k))) is not None]
        failed += repeats - len(values)
        if differences := [abs(a - b) for a, b in combinations(values, 2)]:
            rows.append((item.prompt_id, sum(differences) / len(differences) / span))
    name = "difference between repeated answers"
    repeated = [replace(item, id=_repeated(item, k)) for item in battery.attacked(items) for k in range(1, repeats)]
    if not rows and (reason := _unable(run, repeated)):
        return name, reason
    reach = run.reach(span)
    return line("is not moved", name, rows, rule=LimitRule.AT_MOST, limit=battery.ROBUST, failed=failed, reach=reach)


async def _order(probed: Prober, pairwise: Metric | None, items: Sequence[Item]) -> Result:
    """Measure how strongly a pairwise judge prefers whichever image is shown first: 0 not at all, 1 always."""
    name = "order of two images"
    if pairwise is None:
        return name, "no pairwise metric was given"
    run = Prober(probed.engine, pairwise.name, pairwise)
    by_prompt = grouped(items, lambda item: item.prompt_id)
    await run.score(replace(item, same_prompt=tuple(by_prompt[item.prompt_id])) for item in items)
    probed.stopped = probed.stopped or run.stopped
    rows = [
        (score.prompt_id, duel["shown_first"] - duel["shown_second"])
        for score in run.scores.values()
        if score.value is not None
        for duel in duels(score.parts)
        if score.item_id < duel["other"]  # each comparison once
    ]
    failed = sum(score.value is None for score in run.scores.values())
    if not rows and (reason := _unable(run, items)):
        return name, reason
    return line("is not moved", name, rows, rule=LimitRule.WITHIN, limit=ORDER, failed=failed)


def _failures(scores: Iterable[Score]) -> list[Line]:
    """Measure the shares of refusals and of unparsable answers, among the questions that a judge could answer.

    A judge that refuses a prompt refuses all variants of it, so the unit is the prompt here, too.
    """
    outside = (Status.BAD_INPUT, Status.MISSING, Status.BUDGET)
    answered = [(score.prompt_id, score.status) for score in scores if score.status not in outside]
    kinds = {
        "refusals": (Status.REFUSED,),
        "answers that cannot be read, or do not come": (Status.UNPARSED, Status.TRUNCATED, Status.FAILED),
    }
    return [
        line(
            "answers",
            name,
            [(prompt_id, float(status in kind)) for prompt_id, status in answered],
            rule=LimitRule.AT_MOST,
            limit=UNUSABLE,
            bounds=(0, 1),
        )
        for name, kind in kinds.items()
    ]


def _costs(run: Prober) -> tuple[float | None, float | None]:
    """Return USD and seconds of model time for 1,000 scores; None for what is unknown, or when all came from the cache.

    They are the sums of this session; the folder of a run has the sums of all sessions.
    """
    price: float | None = 0.0
    seconds = 0.0
    for role in _asked(run):
        if not role.tally.asked:
            return None, None
        share = (role.tally.asked + role.tally.cached) / role.tally.asked / len(run.scores) * 1000
        price = (
            price + role.tally.spent * share
            if (role.price is not None or role.provider.direct) and price is not None
            else None
        )
        seconds += role.tally.seconds * share
    return price, seconds


def _asked(run: Prober) -> list[Any]:
    embedder = [run.engine.roles.embedder_role()] if "embedder" in run.metric.roles else []
    return [*run.engine.roles.open(), *embedder]


def _card(
    run: Prober,
    lines: Sequence[Line],
    span: float | None,
    skipped: Mapping[str, str],
    costs: tuple[float | None, float | None],
) -> CardRecord:
    """Make the card of a judge from its lines."""
    roles = [role for role in run.engine.roles.open() if role.name in run.metric.roles]
    models = {role.name: role.label for role in roles}
    if "embedder" in run.metric.roles:
        models["embedder"] = run.engine.roles.embedder().name
    values = {score.value for score in run.scores.values() if score.value is not None}
    return CardRecord(
        metric=run.name,
        models=models,
        versions=versions_of(roles),
        span=span,
        scores=len(run.scores),
        price_per_1000=costs[0],
        seconds_per_1000=costs[1],
        lines=[*lines],
        skipped=dict(skipped),
        notes=[Note("probe_incomplete", run.stopped)] if run.stopped else [],
        **({"same_score": values.pop()} if len(values) == 1 else {}),
    )

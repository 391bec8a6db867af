"""Read the preferences of people: tables of pairs of images, single votes on them, and battles of an arena.

A table of pairs or votes has `prompt_id`, `image_a`, `image_b` and `preference`: a, b, tie or both_bad, in the spellings
that `read_choice` knows. It may have a column with the person (`annotator`). Several people may have a row each, a column
each (`rater1`, `rater2`) or a list in one cell. If a pair has several votes, the rules of A.11 decide it, by the votes
that it has, and the majority what these leave to experts.

A battle of an arena has `model_a`, `model_b` and `winner` (model_a, model_b, tie, "tie (bothbad)") on a prompt:
`prompt_id`, `question_id` or the text `prompt`. Its images are `image_a` and `image_b`, or the images that the two models
made of the prompt. Each battle counts. A battle with an image that is not there is still a pair, which counts as one
without a score.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from titjudge.core.errors import DataError, must_be
from titjudge.core.names import id_of, plain
from titjudge.core.types import Item, Note, Pair, Values
from titjudge.core.words import truncated
from titjudge.data.opinions import RATERS, Opinions, column_of, opinion_columns, opinions_in
from titjudge.data.tables import first_row, read_table, table_columns
from titjudge.stats.people.votes import BOTH_BAD, Key, Vote, aggregate_votes, pair_of, read_choice
from titjudge.stats.scores.families import cluster_of, in_families
from titjudge.suites.base import Notes

VOTE_COLUMNS = ("prompt_id", "image_a", "image_b", "annotator", "preference")
COLUMNS = ("model_a", "model_b", "winner")
Images = Mapping[str, Mapping[str, str]]
"""Image -> prompt id -> item id."""
_PREFERENCE = ("preference", "vote", "choice", "winner", "better")
_PROMPTS = ("prompt_id", "question_id", "prompt")


def read_pairs(
    file: Path,
    images: Images | None = None,
    items: Callable[[], Iterable[Item]] | None = None,
    notes: Notes | None = None,
) -> list[Pair]:
    """Read human pairs from a table of pairs, votes or battles; see above.

    Args:
        file: The table.
        images: Images, if known: a pair must name a prompt of its images.
        items: Reads the images of battles that name models and no images.
        notes: Gets a line on votes that were joined, and on repetitions.

    Raises:
        DataError: A row is malformed, its images belong to another prompt, one person has two opinions on a pair, or no pair is
            decided; names file and row.
    """
    lines = {} if notes is None else notes
    if is_battles(file):
        pairs = _once(read_battles(file, items), file, lines)
    else:
        votes = read_votes(file, images, lines)
        pairs = _decided(votes, file, lines)
    if not pairs:
        raise DataError("the file has no pairs. Add one pair per line", file)
    return pairs


def read_votes(path: Path | str, images: Images | None = None, notes: Notes | None = None) -> list[Vote]:
    """Read single votes; who is not named is another person in each row.

    Raises:
        DataError: As `read_pairs`, or the table has battles.
    """
    path = Path(path)
    if is_battles(path):
        raise DataError("battles (model_a, model_b, winner) are not votes on pairs. Give them to --pairs", path)
    names = table_columns(path)
    required: tuple[str, ...] = VOTE_COLUMNS[:3] if names is None else ()
    if names is not None:
        required = tuple(column_of(names, [name]) or name for name in VOTE_COLUMNS[:3])
        columns = opinion_columns(names, _PREFERENCE) or [VOTE_COLUMNS[-1]]
        required = (*required, *columns, *filter(None, [column_of(names, RATERS)]))
    votes: list[Vote] = []
    clusters: dict[str, str] = {}
    said: Opinions[Key, str] = Opinions(path)
    there: tuple[str, ...] | None = None  # the columns of the row above
    for line, record in read_table(path, required):
        if there != (there := tuple(record)):
            place = [column_of(record, [name]) or name for name in VOTE_COLUMNS[:3]]
            rater, opinions = column_of(record, RATERS), opinion_columns(record, _PREFERENCE)
            unused = opinion_columns(record, ()) if column_of(record, _PREFERENCE) else []
        prompt, a, b = (_text(record, column, path, line, may_be_empty=not k) for k, column in enumerate(place))
        prompt = id_of(prompt)
        if a == b:
            raise DataError(f"'{a}' is paired with itself. Give two different images", path, line)
        a, b = (_item(image, prompt, images, path, line) for image in (a, b))
        annotator = "" if rater is None else _text(record, rater, path, line)
        cluster_of(record, prompt, clusters, path, line)
        source = str(record.get("source") or "")
        key = (prompt, min(a, b), max(a, b))
        choices = _choices(record, opinions, (a, b), path, line, may_be_empty=rater is not None)
        said.blanks += not choices
        said.unused |= dict.fromkeys(unused)
        for name, choice in choices:
            winner = {"a": a, "b": b}.get(choice, choice)
            who = said.add(key, " ".join(filter(None, (annotator, name))), winner, line, f"{a} / {b}")
            if who is not None:
                votes.append(Vote(prompt, a, b, who, choice, source))
    votes = [replace(vote, family=clusters.get(vote.prompt_id, "")) for vote in votes] if clusters else votes
    if notes is not None:
        notes.update(dict.fromkeys(said.notes("votes")))
    return votes


def _text(record: Values, name: str, path: Path, line: int, *, may_be_empty: bool = False) -> str:
    value = record.get(name)
    number = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    if isinstance(value, bool) or not (number or isinstance(value, str)) or not (str(value).strip() or may_be_empty):
        raise DataError(f"'{name}' is missing or not a text: {value!r:.60}. Fill it", path, line)
    return plain(str(value))


def _item(image: str, prompt: str, images: Images | None, path: Path, line: int) -> str:
    """Return the item id of an image under a prompt."""
    ids = (images or {}).get(image, {})
    if ids and prompt and prompt not in ids:
        raise DataError(
            f"'{image}' is an image of the prompt '{next(iter(ids))}', not '{prompt}'. Correct the pair", path, line
        )
    return ids.get(prompt, image)


def _choices(
    record: Values, columns: Sequence[str], sides: tuple[str, str], path: Path, line: int, *, may_be_empty: bool
) -> list[tuple[str, str]]:
    """Read the choices in some columns of a row, with the names of the people if each has a column."""
    if not columns:
        raise DataError(f"the key '{VOTE_COLUMNS[-1]}' is missing. Add it", path, line)
    found = []
    for column in columns:
        choices = opinions_in(record[column], lambda cell: read_choice(cell, *sides))
        if choices is None or not (choices or may_be_empty or len(columns) > 1):
            raise DataError(must_be(f"the {column}", f"a, b, tie or {BOTH_BAD}", record[column]), path, line)
        own = "" if len(columns) == 1 else column
        found += [(" ".join(filter(None, (own, name))), choice) for name, choice in choices]
    return found


def _decided(votes: list[Vote], file: Path, notes: Notes) -> list[Pair]:
    """Make one pair of all votes on a pair of images."""
    sources: dict[Key, set[str]] = {}
    for vote in votes:
        sources.setdefault((vote.prompt_id, min(vote.a, vote.b), max(vote.a, vote.b)), set()).add(vote.source)
    if len(sources) == len(votes):
        number = {name: str(k) for k, name in enumerate(dict.fromkeys(vote.annotator for vote in votes), 1)}
        return [  # names of people are left in their file
            replace(
                pair_of(vote.prompt_id, vote.a, vote.b, vote.choice, vote.source),
                family=vote.family,
                annotator="" if vote.annotator.startswith("#") else number[vote.annotator],
            )
            for vote in votes
        ]
    summary = aggregate_votes(votes, annotators=1, resamples=0, majority=True)
    pairs, family = [], {vote.prompt_id: vote.family for vote in votes}
    for pair in summary.pairs:
        given = sources[pair.prompt_id, min(pair.a, pair.b), max(pair.a, pair.b)]
        source = given.pop() if len(given) == 1 and given != {""} else pair.source
        pairs.append(replace(pair, source=source, family=family[pair.prompt_id]))
    open_pairs = len(sources) - len(pairs)
    undecided = f"; {open_pairs:,} without a majority are not counted" if open_pairs else ""
    line = f"{file}: {len(votes):,} votes on {len(sources):,} pairs: the majority of each pair counts once{undecided}"
    if not pairs:
        raise DataError(f"the votes decide none of {len(sources):,} pairs. Count them with `label convert`", file)
    notes[Note("votes_joined", line)] = None
    return pairs


def _once(battles: list[Pair], file: Path, notes: Notes) -> list[Pair]:
    """Drop battles that repeat one of the same judge, unless several people have that name: their winners differ."""
    by_judge: dict[tuple[Any, ...], dict[str, list[Pair]]] = {}
    for number, battle in enumerate(battles):
        judge = battle.source or number
        winner = {"a": battle.a, "b": battle.b}.get(battle.preference, battle.choice)
        by_winner = by_judge.setdefault((battle.prompt_id, frozenset((battle.a, battle.b)), judge), {})
        by_winner.setdefault(winner, []).append(battle)
    repeated = {id(battle) for said in by_judge.values() if len(said) == 1 for battle in next(iter(said.values()))[1:]}
    if repeated:
        line = f"{file}: {len(repeated):,} battles repeat one of the same judge and count once"
        notes[Note("battles_repeated", line)] = None
    return [battle for battle in battles if id(battle) not in repeated]


def is_battles(file: Path) -> bool:
    """Return True if the first good line of a table is a battle."""
    first = first_row(file)
    return all(name in first for name in COLUMNS)


def read_battles(file: Path, items: Callable[[], Iterable[Item]] | None = None) -> list[Pair]:
    """Read battles as pairs, without battles of a model with itself.

    Args:
        file: The table.
        items: Reads the images; called if a battle names none.

    Raises:
        DataError: A winner is unknown, a model has several images of a prompt, or no battle has both its images; names file
            and line.
    """
    pairs, lacking, complete = [], "", False
    images, clusters = None, dict[str, str]()
    for number, record in read_table(file, COLUMNS):
        models = plain(str(record["model_a"])), plain(str(record["model_b"]))
        choice = read_choice(record["winner"], *models)
        if choice is None:
            names = "model_a, model_b, tie or 'tie (bothbad)'"
            raise DataError(must_be("the winner", names, record["winner"]), file, number)
        if models[0] == models[1]:
            continue
        prompt = next((id_of(record[name]) for name in _PROMPTS if record.get(name) not in (None, "")), None)
        if prompt is None:
            raise DataError(f"the battle has no prompt. Add one of {', '.join(_PROMPTS)}", file, number)
        judge = plain(str(record.get(column_of(record, RATERS) or "source") or record.get("source") or ""))
        if record.get("image_a") and record.get("image_b"):
            prompt_id, a, b = prompt, *(plain(str(record[name])) for name in ("image_a", "image_b"))
        elif items is None:
            raise DataError("these battles require image_a and image_b. Add these columns", file, number)
        else:
            images = images or _Images(items())
            try:
                sides = [images.find(prompt, model) for model in models]
            except LookupError as error:
                raise DataError(f"{error}", file, number) from error
            prompt_id = next((item.prompt_id for item in sides if item), prompt)
            a, b = (item.id if item else _unknown(prompt, model) for item, model in zip(sides, models, strict=True))
            complete |= all(sides)
            if not all(sides) and not lacking:
                lacking = f"{file}:{number}: there is no image of {b if sides[0] else a}"
        cluster_of(record, prompt_id, clusters, file, number)
        pairs.append(pair_of(prompt_id, a, b, choice, judge))
    if lacking and not complete:
        raise DataError(f"{lacking}, nor both images of any other battle. Correct the names")
    return in_families(pairs, clusters)


def _unknown(prompt: str, model: str) -> str:
    return f"'{truncated(prompt, 60)}' by '{model}'"


class _Images:
    """The images of a data set by prompt (its id or its text) and generator."""

    def __init__(self, items: Iterable[Item]) -> None:
        self._by_prompt: dict[tuple[str, str], list[Item]] = {}
        for item in items:
            for prompt in {item.prompt_id, plain(item.prompt)}:
                self._by_prompt.setdefault((prompt, item.generator), []).append(item)

    def find(self, prompt: str, model: str) -> Item | None:
        """Find the image; None if there is none.

        Raises:
            LookupError: There are several.
        """
        matches = self._by_prompt.get((prompt, model), [])
        if len(matches) > 1:
            raise LookupError(f"there are {len(matches)} images of {_unknown(prompt, model)}. Add image_a and image_b")
        return matches[0] if matches else None

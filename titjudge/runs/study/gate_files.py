"""Write the result of a gate for a pull request: JUnit XML, and a Markdown comment with the prompts that lost most."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote
from xml.etree import ElementTree

from titjudge.core.declarations import Doubt
from titjudge.core.files import write_atomic
from titjudge.core.redaction import environment_secrets, redact
from titjudge.core.types import Item
from titjudge.report.model import Loaded, judged_image, load_run
from titjudge.report.tables import escape_markdown
from titjudge.report.thumbnails import thumbnail
from titjudge.runs.folder.run_folder import RunFolder
from titjudge.stats.generators.generator_differences import CANNOT_TELL, NOT_WORSE, WORSE, Gate, GeneratorDifference
from titjudge.stats.scores.scores_table import ScoreTable
from titjudge.stats.verdict.judged_runs import joined

_WORST = 3  # prompts shown for each candidate
_EDGE, _QUALITY = 320, 80  # longest edge (pixels) and WebP quality of a thumbnail
_TEXT = 300  # characters of a prompt or a reason
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def verdict_line(gate: Gate, pair: GeneratorDifference) -> str:
    """Write in one line how the gate decided about a candidate."""
    verdict = gate.verdicts[pair.a]
    margin = f"than {pair.b} by more than {gate.delta:g}"
    if pair.interval:
        margin += f", interval {pair.interval[0]:.4g} to {pair.interval[1]:.4g}"
    if pair.doubt and verdict != NOT_WORSE:  # which has a separate bound
        margin += f" (level not reliable: {Doubt(pair.doubt).words})"
    reason = gate.reasons.get(pair.a)
    if verdict == CANNOT_TELL and reason:
        return f"cannot tell whether {pair.a} is worse {margin}: {reason}, and what is left out may decide"
    if verdict == CANNOT_TELL:
        needed = f"; about {gate.needed[pair.a]:,} would do if they were like these" if pair.a in gate.needed else ""
        return f"cannot tell with {pair.prompts:,} prompts whether {pair.a} is worse {margin}{needed}"
    missing = f" ({reason})" if reason else ""
    sure = (
        f"; at least {gate.least[pair.a]:.4g} whatever its scores look like"
        if verdict == NOT_WORSE and pair.a in gate.least
        else ""
    )
    better = f"better than {pair.b}, and so " if pair.interval and pair.interval[0] > 0 else ""
    return f"{pair.a} is {better}{verdict} {margin}{sure}{missing}"


def fails(gate: Gate, pair: GeneratorDifference, strict: bool) -> bool:
    """Return True if a candidate fails the gate."""
    return gate.verdicts[pair.a] in ((WORSE, CANNOT_TELL) if strict else (WORSE,))


def write_junit(
    file: Path, metric: str, differences: Sequence[GeneratorDifference], gate: Gate, *, strict: bool
) -> None:
    """Write a test case for each candidate: failed, skipped (undecided) or passed."""
    suites = ElementTree.Element("testsuites")
    suite = ElementTree.SubElement(suites, "testsuite", name="titjudge compare generators", tests=str(len(differences)))
    for pair in differences:
        name = f"{pair.a} is not worse than {pair.b} by more than {gate.delta:g}"
        case = ElementTree.SubElement(suite, "testcase", classname=_xml(f"titjudge.{metric}"), name=_xml(name))
        if fails(gate, pair, strict):
            ElementTree.SubElement(case, "failure", message=_xml(verdict_line(gate, pair)))
        elif gate.verdicts[pair.a] == CANNOT_TELL:
            ElementTree.SubElement(case, "skipped", message=_xml(verdict_line(gate, pair)))
    suite.set("failures", str(len(suite.findall("*/failure"))))
    suite.set("skipped", str(len(suite.findall("*/skipped"))))
    write_atomic(file, ElementTree.tostring(suites, encoding="utf-8", xml_declaration=True))


def write_comment(
    file: Path,
    table: ScoreTable,
    differences: Sequence[GeneratorDifference],
    gate: Gate,
    runs: Sequence[Path],
    *,
    strict: bool,
    image_url: str = "",
) -> None:
    """Write a comment for a pull request: the verdicts, and for each candidate the three prompts that lost most.

    Args:
        file: The Markdown file. Thumbnails go into a folder beside it, `NAME_images`.
        table: The scores.
        differences: The differences to the baseline.
        gate: The verdicts of the gate.
        runs: The run folders that the scores come from; without them there are no texts and no images.
        strict: Whether a candidate fails when the gate is undecided.
        image_url: URL of the folder of the thumbnails; without it their links are relative.
    """
    worst = {pair.a: table.furthest_behind(table.column(pair.a), table.column(pair.b), _WORST) for pair in differences}
    images = _RunImages(runs, table.metric)
    place = file.parent / f"{file.stem}_images"
    failed = any(fails(gate, pair, strict) for pair in differences)
    outcome = "has failed" if failed else "cannot tell" if gate.open else "has passed"
    lines = [f"### titjudge: the gate {outcome}", ""]
    for pair in differences:
        sign = "❌" if fails(gate, pair, strict) else "❔" if gate.verdicts[pair.a] == CANNOT_TELL else "✅"
        lines.append(f"- {sign} {_md(verdict_line(gate, pair))}")
    for pair in differences:
        if not worst[pair.a]:
            lines += ["", f"{_md(pair.a)} lost on no prompt ({_md(table.metric)})"]
            continue
        names = f"{_md(pair.a)} against {_md(pair.b)}"
        lines += ["", f"**{names}: the prompts that lost most** ({_md(table.metric)})", ""]
        lines += [f"| prompt | {_md(pair.b)} | {_md(pair.a)} |", "| --- | --- | --- |"]
        a, b = table.column(pair.a), table.column(pair.b)
        for row in worst[pair.a]:
            prompt = table.prompts[row]
            cells = [_md(images.text(prompt)[:_TEXT])]
            for generator, value in ((pair.b, table.means[row, b]), (pair.a, table.means[row, a])):
                cells.append(f"{table.sign * value:.4g}{images.image(prompt, generator, place, image_url)}")
            lines.append(f"| {' | '.join(cells)} |")
    write_atomic(file, "\n".join(lines) + "\n")


class _RunImages:
    """The images of runs, by prompt and generator as the table of scores names them."""

    def __init__(self, paths: Sequence[Path], metric: str) -> None:
        runs = [load_run(RunFolder(path), str(path), alone=len(paths) == 1) for path in paths]
        frame = joined(runs)
        self._metric = metric
        self._images: dict[tuple[str, str], tuple[Loaded, Item]] = {}
        self._texts: dict[str, str] = {}
        for run in runs:
            for item in run.items.values():
                prompt = frame.prompt(item)
                self._images.setdefault((prompt, frame.generator(run.name, item)), (run, item))
                self._texts.setdefault(prompt, item.prompt)

    def text(self, prompt: str) -> str:
        return self._texts.get(prompt, prompt)

    def image(self, prompt: str, generator: str, place: Path, url: str) -> str:
        """Return Markdown with the image and the judge's reason for a prompt and generator; empty if there is none."""
        if (prompt, generator) not in self._images:
            return ""
        run, item = self._images[prompt, generator]
        known = (item.id, self._metric) in run.scores
        said = run.scores.whole(item.id, self._metric).reason if known else ""
        reason = f"<br>{_md(said[:_TEXT])}" if said else ""
        if item.image is None:
            return reason
        webp = thumbnail(judged_image(run, item, [self._metric]), _EDGE, _QUALITY)
        if isinstance(webp, str):  # why there is none
            return f"<br>({_md(webp)}){reason}"
        file = f"{hashlib.sha256(webp).hexdigest()[:16]}.webp"
        write_atomic(place / file, webp)
        return f"<br>![{_md(generator)}]({url.rstrip('/') or quote(place.name)}/{file}){reason}"


def _md(text: str) -> str:
    """Escape text for Markdown and remove secrets, as a comment may be public."""
    return escape_markdown(redact(text, environment_secrets()))


def _xml(text: str) -> str:
    return _NO_XML.sub("�", redact(text, environment_secrets()))

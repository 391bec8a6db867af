"""`bench`: which generator is better, from prompts to the verdict, under one cap."""

from __future__ import annotations

import asyncio
import math
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from titjudge.cli import BUDGET_REACHED
from titjudge.cli.commands import Command
from titjudge.cli.compare_options import GateRule, SettleFlags
from titjudge.cli.options import EXPLAIN, JSON, RunKeys, configured, gathered, key_values, model_options, options
from titjudge.cli.output import write_json
from titjudge.cli.progress import PLAIN_INTERVAL, span, watcher
from titjudge.cli.terminal import say
from titjudge.core.errors import ConfigError, DataError, not_combined

if TYPE_CHECKING:
    from titjudge.apps.bench.benchmark import Benchmark
    from titjudge.core.config import RunConfig
    from titjudge.runs.folder.run_folder import FolderLock
    from titjudge.suites.prompt_list import PromptList

_STAND_INS = 4  # prompts whose judging is priced; the others cost about as much
_TIMEOUT = 180.0  # seconds for one image, at least
_IMAGE_SECONDS, _ANSWER_SECONDS = (10, 40), (2, 10)  # of hosted models, as they usually are


class _Making(NamedTuple):
    """How images are made.

    Attributes:
        generators: The image makers, `[NAME=]WHAT` each.
        options: KEY=VALUE of all models, NAME.KEY=VALUE of one.
        image_price: MODEL=USD of an image.
        images_per_prompt: Images of each prompt by each generator.
    """

    generators: Sequence[str] = ()
    options: Sequence[str] = ()
    image_price: Sequence[str] = ()
    images_per_prompt: int = 1


@click.command(cls=Command, resumed=True)
@click.argument("prompt_file", required=False, metavar="[PROMPTS]")
@gathered("making", _Making)
@options("metrics")
@model_options
@gathered("settling", SettleFlags)
@gathered("gate", GateRule)
@options("protocol", "out", "dry_run")
@JSON
@EXPLAIN
@configured
def bench(
    keys: RunKeys,
    prompt_file: str | None,
    making: _Making,
    settling: SettleFlags,
    gate: GateRule,
    out: Path | None,
    dry_run: bool,
    json_file: Path | None,
) -> int:
    """Find the better generator: make the images of PROMPTS, judge them, and keep a cap.

    PROMPTS is a list such as prompts.txt or prompts.csv:ID,PROMPT. Images are made and judged in rounds of 4, 8, 16, ... prompts,
    so that the first verdict comes early. Everything is in the folder bench, or --out. --max-cost is one cap for images and judgements. To continue, run the command again.
    Without arguments it judges the bundled example, as `judge` does: no key and no network.

    \b
    Examples:
      python cli.py bench
      python cli.py bench prompts.txt --generator openai/gpt-image-2 \\
          --generator gemini/gemini-2.5-flash-image \\
          --provider gemini --max-cost 20
      python cli.py bench prompts.txt --generator old=samples/old \\
          --generator new=openai/gpt-image-2 --option new.quality=low \\
          --provider openai --metric tit-llm --settle old,new --max-cost 5
    """
    from titjudge.apps.bench.benchmark import Benchmark, read_generators
    from titjudge.suites.prompt_list import read_prompts

    if prompt_file is None and not making.generators:
        return _example(keys, out, json_file, dry_run)
    if prompt_file is None:
        raise ConfigError("PROMPTS is missing. Give a file: bench prompts.txt --generator A --generator B")
    listed = read_prompts(prompt_file)
    if not listed.prompts:
        raise DataError("the file has no prompts. Write one prompt per line", Path(prompt_file))
    if gate.baseline is not None and gate.fail_if_worse is None:
        raise ConfigError("--baseline requires --fail-if-worse DELTA")
    if gate.baseline is not None and settling.settle is not None:
        raise ConfigError(not_combined("--fail-if-worse", "--settle"))
    generators = read_generators(making.generators, key_values("--option", making.options))
    benchmark = Benchmark(
        out or Path("bench"),
        listed.prompts,
        generators,
        making.images_per_prompt,
        _sources(listed),
        prompt_file,
        listed.meta,
    )
    for problem in listed.problems:
        say(f"left out: {problem.reason}", err=True)
    return _Bench(benchmark, keys, making.image_price, settling, gate, json_file).run(dry_run)


def _sources(listed: PromptList) -> dict[str, tuple[Path, ...]]:
    """Find the sources of edits in the rows of a list of prompts, by the id of the prompt.

    Raises:
        DataError: One is not an image.
    """
    from titjudge.data.images import check_header

    by_prompt = {name: listed.sources(name, (Path("/"),)) for name in listed.prompts}
    for source in {source for sources in by_prompt.values() for source in sources}:
        check_header(source)
    return {name: sources for name, sources in by_prompt.items() if sources}


def _example(keys: RunKeys, out: Path | None, json_file: Path | None, dry_run: bool) -> int:
    """Judge the bundled example; the run folder is in the usual place below `out`, if that is given."""
    from titjudge.apps.bench.benchmark import RUN
    from titjudge.cli.judge import run_images
    from titjudge.runs.session import Session

    place = {"out": out / RUN} if out else {}
    return run_images(Session(keys.config(**place)), json_file, dry_run=dry_run)


class _Bench:
    """One session of the command."""

    def __init__(
        self,
        benchmark: Benchmark,
        keys: RunKeys,
        prices: Sequence[str],
        settling: SettleFlags,
        gate: GateRule,
        json_file: Path | None,
    ) -> None:
        self._capped = self._interrupted = False
        self._benchmark, self._keys, self._prices = benchmark, keys, prices
        self._settling, self._gate, self._json_file = settling, gate, json_file
        self._prompts = list(benchmark.prompts)
        self._cap: float | None = keys["max_cost"]
        self._timeout = max(_TIMEOUT, keys.config().limits.timeout)
        self._makers: dict[str, Any] = {}
        self._judged = 0
        self._lock: FolderLock

    def run(self, dry_run: bool) -> int:
        """Make and judge images, round by round, until a round must be the last; returns the exit code."""
        from titjudge.runs.folder.run_folder import FolderLock

        self._benchmark.check_images()
        if dry_run:
            return self._forecast()
        self._check_judging()
        with closing(FolderLock(self._benchmark.folder)) as self._lock:
            return self._run()

    def _run(self) -> int:
        from titjudge.apps.bench.benchmark import DOUBLING, SETTLING, rounds

        ended = ""
        growth = DOUBLING if self._settling.settle is None else SETTLING
        for done in rounds(len(self._prompts), self._affordable, self._benchmark.begun(), growth=growth):
            ended = self._round(self._prompts[:done])
            if ended:
                break
        return self._finish(ended)

    # -- one round -------------------------------------------------------------------------------------------------------

    def _round(self, prompts: list[str]) -> str:
        """Make and judge the images of some prompts; returns why it must be the last round, if it must."""
        self._lock.check_round()
        made, why = self._make(prompts)
        self._lock.check_round()
        if not made or not self._benchmark.write_list(made):
            return why
        self._judged = len(made)
        say(f"{len(made)} of {len(self._prompts)} prompts: judging")
        from titjudge.core.run_records import stopped_by
        from titjudge.engine.sender import GRACE

        session = self._session()
        session.ends_in = GRACE if self._interrupted else None
        outcome = session.run(watcher(self._cap))
        for line in _verdict(outcome):
            say(line)
        cause = stopped_by(outcome.status)
        self._capped |= cause == "budget"
        why = why or ("" if outcome.status == "complete" else outcome.status)
        if (self._interrupted or session.interrupted) and len(made) < len(self._prompts):
            why = why or "interrupted"  # before the last answers of the round came
        self._interrupted |= "interrupted" in (cause, why)
        return why

    def _make(self, prompts: list[str]) -> tuple[list[str], str]:
        """Have the generators make their images; returns the prompts that have them, and why nothing more can be made."""
        from titjudge.apps.bench.benchmark import IMAGES
        from titjudge.apps.generate.generating import Generated, Making, generate_all

        makings = {}
        for generator in self._benchmark.generators:
            if (maker := self._maker(generator)) is not None:
                images = self._benchmark.images_to_make(generator, prompts)
                makings[generator.name] = Making(images, maker, Generated(len(images)), _Watch(generator.name).show)
        folder = self._benchmark.folder / IMAGES
        generate_all([*makings.values()], folder, say=partial(say, err=True), by_prompt=True)
        why, untried = "", set[str]()
        for name, making in makings.items():
            generated, outcome = making.progress, making.progress.outcome
            for image, reason in [*generated.refused, *generated.failed][:3]:
                say(f"  {name}: no image for {image}: {reason}", err=True)
            for image, reason in generated.odd[:3]:
                say(f"  {name}: {image}: {reason}", err=True)
            if outcome is None and generated.stopped:
                return [], f"{name}: {generated.stopped}"
            why, untried = why or generated.stopped, untried | generated.untried
            if outcome is not None:
                self._capped, self._interrupted = outcome.budget, outcome.interrupted
        return [prompt for prompt in prompts if prompt not in untried], why or "interrupted" * self._interrupted

    def _maker(self, generator: Any) -> Any:
        """Make the maker of a generator's images: a hosted one with the rest of the cap, a local one once."""
        if generator.model.startswith("diffusers/"):
            if generator.name not in self._makers:
                self._makers[generator.name] = generator.maker(self._timeout, (), {})
            return self._makers[generator.name]
        keys = {"concurrency": self._keys["concurrency"]}
        if self._cap is not None:
            keys["max_cost"] = self._benchmark.spent_on_their_images() + self._money_left()
        return generator.maker(self._timeout, self._prices, keys)

    # -- before anything is paid -----------------------------------------------------------------------------------------

    def _forecast(self) -> int:
        """Print what images and judgements would cost, and how long they may take; returns the exit code."""
        from titjudge.apps.generate.generating import requests

        images: dict[str, tuple[int, float | None]] = {}
        for generator in self._benchmark.generators:
            to_make = self._benchmark.images_to_make(generator, self._prompts)
            missing = [image for image in to_make if not image.place.exists()] if generator.folder is None else []
            images[generator.name] = len(missing), self._most(generator, requests(missing))
        judging = self._judging_forecast()
        count = len(self._prompts) * len(images) * self._benchmark.samples
        seconds = {
            name: _seconds(missing, judging.at_once, _IMAGE_SECONDS)
            for name, (missing, most) in images.items()
            if most != 0.0
        }
        for name, (missing_count, most) in images.items():
            time_of = f", {span(*seconds[name])}" if name in seconds else ""
            say(f"{name}: {missing_count:,} images to make{_at_most(most)}{time_of}")
        price, answers = judging.price, _seconds(judging.requests, judging.at_once, _ANSWER_SECONDS)
        cost = f"about ${price[1]:.2f}, ${price[2]:.2f} at most" if price else "price unknown"
        say(f"judging {count:,} images: {cost}, {span(*answers)}")
        costs = [most for _, most in images.values() if most is not None]
        total = (
            f"${math.fsum([*costs, price[2]]):.2f} at most" if price and len(costs) == len(images) else "price unknown"
        )
        low, high = (sum(ends) for ends in zip(*seconds.values(), answers, strict=True))
        assumed = "{} to {} s for a hosted image, {} to {} s for an answer".format(*_IMAGE_SECONDS, *_ANSWER_SECONDS)
        say(f"together: {total}, {span(low, high)} (with {assumed}, {judging.at_once} at once)")
        record = {
            "dry_run": True,
            "images": {
                name: {"missing": missing_count, "max_cost": most} for name, (missing_count, most) in images.items()
            },
            "judged": count,
            "judging": {"likely": price[1], "max": price[2]} if price else None,
            "requests": judging.requests,
        }
        write_json(self._json_file, record)
        return 0

    def _most(self, generator: Any, requests: Any) -> float | None:
        """Return an upper bound of the USD for a generator's images; None if that is unknown."""
        if not generator.model or generator.model.startswith("diffusers/"):
            return 0.0
        most: float | None = self._maker(generator).most(requests)
        return most

    def _judging_forecast(self) -> _Judging:
        """Forecast the judging from substitutes for the images of some prompts.

        Raises:
            UserError: The judging cannot be done as it is configured.
        """
        some = self._prompts[:_STAND_INS]
        with self._judging_of_stand_ins(some) as session:
            forecast, at_once = session.dry_run(), session.config.limits.concurrency
        scale = len(self._prompts) / len(some)
        price = None if forecast.total is None else [scale * usd for usd in forecast.total]
        return _Judging(price, round(scale * sum(role.requests for role in forecast.roles.values())), at_once)

    def _check_judging(self) -> None:
        """Find what is wrong with the judging before an image is paid.

        Raises:
            UserError: A metric, a model, a key or a price under a cap is missing.
        """
        from titjudge.runs.open_run import open_engine

        async def open_models(session: Any) -> None:
            async with open_engine(session.config, asks=session.resolved.roles) as engine:
                for name in engine.roles.with_panel(session.resolved.roles):
                    (engine.roles.embedder() if name == "embedder" else engine.roles[name].provider).ready()

        for generator in self._benchmark.generators if self._benchmark.sources else ():
            maker = self._maker(generator)
            if maker is not None and not maker.makes_edits:
                raise ConfigError(
                    f"--generator {generator.name} cannot use source images. Choose a model that makes edits"
                )
        with self._judging_of_stand_ins(self._prompts[:1]) as session:
            session.input.check_sources(session.metrics.values())
            asyncio.run(open_models(session))

    @contextmanager
    def _judging_of_stand_ins(self, prompts: list[str]) -> Iterator[Any]:
        """Open a run over images of 1024 x 1024 pixels instead of the images to be made."""
        from titjudge.runs.session import Session

        with tempfile.TemporaryDirectory() as place:
            data = self._benchmark.stand_ins(Path(place), prompts)
            yield Session(self._config(data, Path(place) / "run"))

    # -- money -----------------------------------------------------------------------------------------------------------

    def _money_left(self) -> float:
        """Compute the USD that the cap leaves."""
        assert self._cap is not None
        return max(0.0, self._cap - self._benchmark.spent())

    def _affordable(self, done: int) -> int:
        """Compute how many further prompts the money left is likely to pay for, at what those until now have cost."""
        spent = self._benchmark.spent_on_these()
        if self._cap is None or not spent:
            return len(self._prompts)
        return int(self._money_left() / (spent / done) + 1e-9)

    # -- judging ---------------------------------------------------------------------------------------------------------

    def _config(self, data: Path, run: Path, *, report: bool = False) -> RunConfig:
        """Make the configuration of the judging."""
        keys = RunKeys(self._keys)
        if self._cap is not None:
            keys["max_cost"] = max(0.0, self._cap - self._benchmark.spent_on_images())
        roots = self._benchmark.image_roots() or None
        return keys.config(data=str(data), out=str(run), report=report, image_root=roots)

    def _session(self, *, report: bool = False) -> Any:
        """Open the run over the images that are listed."""
        from titjudge.apps.bench.benchmark import LIST, RUN
        from titjudge.runs.session import Session
        from titjudge.runs.study.settling import SettlingSession

        folder = self._benchmark.folder
        config = self._config(folder / LIST, folder / RUN, report=report)
        question = self._settling.question(config)
        return Session(config) if question is None else SettlingSession(config, question)

    # -- the end ---------------------------------------------------------------------------------------------------------

    def _finish(self, ended: str) -> int:
        """Print the results, write the report, and print the costs; returns the exit code."""
        from titjudge.cli.judge import run_images
        from titjudge.core.signals import INTERRUPTED

        self._lock.check_round()
        code = INTERRUPTED if self._interrupted else 1
        ended = ended or "there is no image to judge" * (not self._judged)
        if self._judged:
            session = self._session(report=True)
            session.ends_in = 0.0 if self._interrupted else None
            code = run_images(session, self._json_file)
            say(f"`report {session.config.out} --format site` publishes all of it as pages for a web server")
        images, whole = self._benchmark.spent_on_images(), self._benchmark.spent()
        say(f"spent ${whole:.4f} in all: ${images:.4f} for images, ${whole - images:.4f} for judging")
        short = self._judged < len(self._prompts) and ended != "settled"
        if not short:
            return self._passed_gate() or code
        why = ended or "the money left pays for no further prompt"
        say(f"stopped after {self._judged} of {len(self._prompts)} prompts: {why}", err=True)
        say("to continue, run the command again; if the cap was reached, with a higher --max-cost", err=True)
        return BUDGET_REACHED if not ended or self._capped else code or 1

    def _passed_gate(self) -> int:
        """Compare the generators with the baseline, if there is one; returns the exit code."""
        from titjudge.apps.bench.benchmark import RUN
        from titjudge.cli.compare_generators import generators

        gate = self._gate
        if gate.baseline is None:
            return 0
        words = [
            str(self._benchmark.folder / RUN),
            "--baseline",
            gate.baseline,
            "--fail-if-worse",
            str(gate.fail_if_worse),
        ]
        failed: int = generators.main([*words, *["--strict"] * gate.strict], standalone_mode=False)
        return failed


@dataclass(frozen=True, slots=True)
class _Judging:
    """A forecast of the judging.

    Attributes:
        price: USD at p10, p50 and p90; None if it is unknown.
        requests: Questions to models.
        at_once: Maximum number of requests at a time.
    """

    price: list[float] | None
    requests: int
    at_once: int


def _at_most(most: float | None) -> str:
    return ", price unknown" if most is None else f", ${most:.2f} at most" if most else ""


def _seconds(requests: int, at_once: int, seconds: tuple[int, int]) -> tuple[int, int]:
    """Compute how long `requests` requests may take, from the seconds that each may take."""
    in_turn = math.ceil(requests / at_once)
    return in_turn * seconds[0], in_turn * seconds[1]


def _verdict(outcome: Any) -> list[str]:
    """Return the verdict after a round, in one or two sentences; empty if there is none yet."""
    from titjudge.stats.verdict.sentences import sentences

    results = outcome.results
    return [] if results.verdict is None else sentences(results.verdict, results.settle, outcome.lacking)


class _Watch:
    """Prints from time to time how many images of a generator exist."""

    def __init__(self, name: str) -> None:
        self._name, self._last = name, time.monotonic()

    def show(self, progress: Any) -> None:
        now = time.monotonic()
        if progress.done >= progress.total > progress.there or now - self._last >= PLAIN_INTERVAL:
            self._last = now
            say(f"{self._name}: {progress.made + progress.there} of {progress.total} images", err=True)

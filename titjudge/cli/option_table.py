"""Every option of every command, defined once: its flag, placeholder, text, type and place in the help."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import click

from titjudge.core.names import plain

PATH = click.Path(path_type=Path)
_COUNT, _AT_LEAST_0, _ABOVE_0 = click.IntRange(1, 10_000), click.FloatRange(0), click.FloatRange(0, min_open=True)
_SHARE = click.FloatRange(0, 1)

GROUPS = DATA, MODELS, METRIC, MONEY, STOPPING, CLUSTER, OUTPUT = (
    "Data",
    "Models",
    "Metric and suite",
    "Money and pace",
    "Stopping",
    "Cluster",
    "Output",
)
"""Titles of the groups, in the order of the help; options without a group come first."""

_TABLE: dict[str, dict[str, str]] = {
    "": {
        "--accepted-only": "Write the accepted prompts even if some prompts are undecided.",
        "--against DATA ...": "Prompts that must not leak into this set: a list, a data folder, or a suite (NAME, or NAME:FOLDER of its files).",
        "--agree NAME ...": "Another metric of the run that must prefer the same image.",
        "--allow-drift": "Compare runs even if the judge, its version or the protocol changed between them.",
        "--annotators N|NAMES": "Number of people, or their names (anna,ben,chris); each gets a link.",
        "--api-key-env NAME": "Environment variable with the key (never the key).",
        "--ask": "Send a tiny question to the captioner (with an image) and the judge, at each of their addresses, and show which "
        "endpoint and model version answered.",
        "--author NAME": "Name of the person or model that answers or decides.",
        "--baseline GENERATOR": "Compare every other generator with this one.",
        "--both-bad/--no-both-bad": 'Offer "both bad" as an answer in addition to left, right and tie of the TIT paper (A.11).',
        "--by COLUMN": "Also compare within each value of this column, such as type or theme.",
        "--command COMMAND": "Program and arguments that make one image, run without a shell: 'prog --prompt={prompt} --out={out} "
        "--seed={seed}'.",
        "--comment FILE": "Write a Markdown comment with the three worst prompts, and thumbnails into a folder beside it.",
        "--crops DIR": "Folder for crops of images; without it they are put into the lines.",
        "--difference D": "The smallest difference in score that counts.",
        "--edits": "Edits instead of prompts: a source, an instruction, and results that are done, not done, done elsewhere, with a "
        "further change, or over-edited.",
        "--errors N": "Number of errors of each kind to plant in the prompt of each image, one at a time. Fewer cost less and give "
        "wider intervals.",
        "--even-words": "Split each word-count interval of LongT2IBench (30, 50, 70, 90, 110) by these shares.",
        "--experts FILE": "Verdicts of experts on the items that the annotators leave open (experts.jsonl, or votes).",
        "--fail-if-worse DELTA": "Exit with code 1 if a generator is worse than --baseline by more than DELTA (see `compare generators`).",
        "--framework {ms-swift,llama-factory,trl}": "The framework that reads the file.",
        "--full-images": "Embed images in full size (a large file).",
        "--generator [NAME=]WHAT ...": "A generator: openai/MODEL, gemini/MODEL, litellm/VENDOR/MODEL, diffusers/REPO, or a folder of images named after "
        "the ids of their prompts; NAME=... gives it another name.",
        "--gold FILE": "Attention checks: pairs with a known answer, or elements (image, element, value).",
        "--gold-least X": "Exclude an annotator who certainly answers less than this share of checks right; 0: never.",
        "--gold-share X": "Share of checks among the questions.",
        "--hard": "Crowded scenes: 40 to 80 small objects, counts up to 12, small text, near-duplicates.",
        "--host HOST": "Address to listen on.",
        "--html FILE": "Write a page with charts.",
        "--human FILE": "People's scores (jsonl or csv with image, score, or a column for each pillar) or marks (image, element, value).",
        "--image-cost USD": "Price of one judged image.",
        "--image-price MODEL=USD ...": "Price of one image in USD, if no price is known or yours differs: openai/gpt-image-2=0.05.",
        "--image-url URL": "The address at which the folder of --comment will be published.",
        "--images-per-prompt N": "Images of each prompt by each generator.",
        "--include PATTERN ...": "Files of the hub repository to download instead of those the suite needs.",
        "--junit FILE": "Write a test case for each generator, as CI systems read it.",
        "--format {html,folder,site,csv,json,parquet,latex,markdown}": "The page in one file, in a folder (folder) or for a web server with all runs (site); or its tables.",
        "--ladder 1|2|3": "Scenes of 25, 40 or 60 groups with details of 8 to 20 pixels, drawn in seconds: three difficulties.",
        "--length {short,long,both}": "Only short or only long prompts, if the suite has both.",
        "--level P": "Confidence level of the intervals.",
        "--levels LIST": "Levels of adherence: 0 no error, 1 one error, 2 a third wrong, 3 two thirds wrong (--ladder: 4 and 12 errors).",
        "--local": "Also show what this machine can run: memory, devices, which known models fit, and with which batch size.",
        "--max-body MIB": "The largest request, in MiB: a batch of raw pixels may need more.",
        "--missing {error,skip,group-mean}": "Reply if a judgement fails. error: the request fails; skip: no number (NaN or null); group-mean: the mean of the "
        "other rewards of its prompt in the request, or an error if there is none.",
        "--mode {pairs,yes-no,facets,graph,rating,rank}": "Task: compare two images (pairs), rank all images of a prompt (rank), or mark single "
        "images: answer the questions of the item (yes-no), rate the facets of the checklist, check the elements of its graph, or "
        "rate each pillar from 1 to 10.",
        "--model PROVIDER/MODEL": "A hosted model (openai/MODEL, gemini/MODEL, litellm/VENDOR/MODEL), or a pipeline that runs on this machine: "
        "diffusers/REPO or diffusers/ and a folder.",
        "--name NAME": "Name of the generator; without it that of the program or the repository.",
        "--no-token": "Answer all requests from this machine, without a token.",
        "--number N": "How many prompts to make; with tiif and facets: pairs of a short and a long one.",
        "--open": "One link for all: people type their names on its page. --annotators is then the maximum number of people.",
        "--option KEY=VALUE ...": "Setting of the model that makes images: size=1024x1024 or quality=low of a hosted one; num_inference_steps=30, "
        "height=512, dtype=float16 or device=cpu of a pipeline. In `bench`, NAME.KEY=VALUE is for one generator.",
        "--orders N": "How many random orders of the prompts to try.",
        "--pair A,B|all": "Two generators, or all pairs; three or more for `compare early-stopping`.",
        "--plan {all,merge}": "all: every pair of images of a prompt, as A.11 of the TIT paper counts votes; merge: fewer votes, by merge sort, "
        "which implies the others. Without it: all, or as the store was begun.",
        "--plot FILE": "Draw a chart (.svg or .png).",
        "--port N": "Port to listen on, or a free one if that is taken.",
        "--power P": "The probability of detecting the difference.",
        "--priced-as PROVIDER/MODEL": "Price every answer as this model's, recorded and local ones too, whose tokens are estimated.",
        "--prompt TEXT": "The prompt the images were made from; - reads it from standard input.",
        "--range LOW,HIGH": "Lowest and highest possible score of a table, such as 0,100.",
        "--rays N": "Rays for each pixel; more is finer and slower.",
        "--recipe {six-block,tiif,facets,long-graph,elements}": "six-block: long prompts as in LPG-Bench. tiif: short and long ones, with questions. facets: bilingual, short and "
        "long ones, with facets of Qwen-Image-Bench. long-graph: of several lengths, with graphs as in LongT2IBench. "
        "elements: questions, facets and graphs for prompts that you have.",
        "--reference NAME": "Put the first run among the rows of a published table (see `suites published`).",
        "--repeats N": "How often the judge is asked the same question.",
        "--replace": "Replace recorded answers by answers in FILE; drop the answers that depend on them.",
        "--revision SHA": "Commit, branch or tag on the hub instead of the pinned one.",
        "--scene NAME": "Kind of scenes for --ladder: cabinet (from above), stand (people on a grandstand), shelves (several materials), "
        "or mixed, all in turns.",
        "--scenes N": "Number of prompts, each with a different scene.",
        "--single-votes FILE": "Single votes (as for `label convert`): also show how often one person agrees with the others.",
        "--size PX": "Width and height of the images.",
        "--store FILE": "The file (SQLite) that keeps the votes.",
        "--strengths": "Also fit Bradley-Terry strengths of the generators, with intervals.",
        "--strict": "Exit with code 1 also if --fail-if-worse has too few prompts for an answer.",
        "--template NAME": "Only the answers to this prompt template.",
        "--test SHARE": "Share of the prompts for testing.",
        "--themes FILE": "Your own themes for six-block (.txt, .csv, .jsonl), instead of random ones; with elements: the prompts.",
        "--title TEXT": "Title of the board of --format site.",
        "--token-file FILE": "File with the token; without it the environment variable TITJUDGE_TOKEN, or a new token.",
        "--tokenizer DIR": "Count tokens with this tokenizer (a folder of transformers).",
        "--url URL": "The address by which others reach the page, through a tunnel or a proxy; links begin with it, and only pages "
        "from there can write.",
        "--val SHARE": "Share of the prompts for validation.",
        "--votes N": "Number of votes that each item should have.",
        "--yes": "Do not ask for confirmation.",
    },
    DATA: {
        "--data DATA": "",
        "--images PATTERN": "",
        "--prompt-file FILE[:ID,PROMPT]": "",
        "--sources PATTERN ...": "",
        "--columns image=COLUMN,prompt=...": "",
        "--image-root DIR ...": "",
        "--pairs FILE": "",
        "--grid ROWSxCOLUMNS": "",
        "--limit N": "",
    },
    MODELS: {
        "--provider NAME": "Provider of captioner and judge, with its default model: openai, gemini, ...",
        "--captioner PROVIDER/MODEL": "",
        "--judge PROVIDER/MODEL ...": "",
        "--embedder PROVIDER/MODEL": "",
        "--base-url URL": "Address of a compatible server for captioner and judge, or for images; several, separated by commas, share the "
        "load. An embedder of the same provider needs a separate address: --set embedder.base_url=URL.",
        "--config FILE": "Configuration file (run.yaml); options override its keys.",
        "--set KEY=VALUE ...": "Set any key of run.yaml, such as attempts=3 or captioner.temperature=0.2, or an option of a metric, such as "
        "tit-agent.max_looks=12. docs/reference/configuration.md lists the keys.",
        "--canary": "",
    },
    METRIC: {
        "--metric NAME ...": "Name of a metric, see `metrics`; of a table, the column of the score.",
        "--suite NAME": "",
        "--suite-option KEY=VALUE ...": "",
        "--protocol": "",
        "--per-prompt mean|best|any|all": "",
        "--seed S": "",
    },
    MONEY: {
        "--max-cost USD": "",
        "--price MODEL=IN,OUT[,CACHED] ...": "Price in USD per million tokens.",
        "--concurrency N": "",
        "--rpm N": "",
        "--timeout SECONDS": "",
        "--batch": "",
        "--retry-failed": "",
        "--dry-run": "Count the requests, tokens and cost; send nothing.",
    },
    STOPPING: {
        "--min-coverage SHARE": "",
        "--settle A,B[,C...]": "Continue, on prompts in random order, only until it is known which of these generators is better. Saves money on "
        "one such question; a full ranking costs as much as judging everything.",
        "--margin M": "Also stop once the mean scores are known to lie within M of each other: equivalent.",
    },
    CLUSTER: {
        "--shard K/N": "",
    },
    OUTPUT: {
        "-o, --out PATH": "The file or folder to write. A run is a folder, by default runs/DATA-HASH: run the command again to resume it. "
        "Tables are a .md, .tex or .csv file.",
        "--report/--no-report": "",
        "--official-files DIR": "Also write the files of the official scripts of the suite into this folder.",
        "--sink NAME[:PROJECT[/RUN]] ...": "Also send the results to an experiment tracker, such as wandb (an unknown NAME lists all).",
        "--step N": "The training step that --sink records.",
        "--json FILE": "Also write the results as JSON; - is standard output (other text then goes to standard error).",
        "--explain": "Also print what the columns of the tables mean, and how their intervals and p-values are computed.",
    },
}
"""Flags, placeholder and text of each option, by group.

`...` marks what can usually be repeated, and `{a,b}` the only values. FILE, DIR and PATH are paths, N is a whole number; a flag
without a placeholder is a switch. An option that is a key of run.yaml has the type of the key, and without a text its text.
"""

_WITHOUT = {
    DATA: "ignore_sources limit_seed",
    MODELS: "panel detector cache lenient",
    METRIC: "metric_options prompts samples vote quorum",
    MONEY: "prices max_requests max_tokens tpm attempts patience batch_poll batch_idle",
    CLUSTER: "engine ray_address workers",
}
"""The keys of run.yaml that have no option; `--set` takes all of them."""

_NAMES = {
    "config": "config_file",
    "format": "kind",
    "generator": "generators",
    "json": "json_file",
    "metric": "metrics",
    "open": "open_link",
    "option": "options",
    "set": "settings",
    "sink": "sinks",
    "suite_option": "suite_options",
}
"""The parameters of commands that are not named like their flag."""

_BRIEF = {
    "data": "Folder or table of images with prompts.",
    "images": "Where they lie: {generator}/{prompt_id}.png",
    "prompt_file": "Prompts of --images: prompts.txt, .csv, ...",
    "pairs": "Which images people prefer, to test metrics.",
    "limit": "Only the first N images, in whole prompts.",
    "provider": "openai, gemini, ...: with its default model.",
    "captioner": "The model that describes images.",
    "judge": "The model that judges; several: a panel.",
    "base_url": "Address of a compatible server (vLLM, ...).",
    "config_file": "Configuration file (run.yaml).",
    "settings": "Any other key of run.yaml.",
    "metrics": "What is computed, see `metrics`.",
    "suite": "A published benchmark, see `suites`.",
    "max_cost": "Hard cap on what it may spend.",
    "retry_failed": "Ask again what was refused or cut off.",
    "dry_run": "Only count requests and cost.",
    "out": "The file or folder to write.",
}
"""The line of an option in the `--help` of a long command; the other options of a group are listed by `--help-all` only."""

_TYPES: dict[str, Any] = {
    "baseline": plain,
    "difference": _ABOVE_0,
    "errors": click.IntRange(2),
    "fail_if_worse": _AT_LEAST_0,
    "gold_least": _SHARE,
    "gold_share": click.FloatRange(0, 1 / 3, min_open=True),
    "image_cost": _AT_LEAST_0,
    "images_per_prompt": _COUNT,
    "ladder": click.IntRange(1, 3),
    "level": click.FloatRange(0.5, 0.9999),
    "margin": _ABOVE_0,
    "max_body": click.IntRange(1),
    "number": click.IntRange(1),
    "orders": _COUNT,
    "pair": plain,
    "power": click.FloatRange(0.5, 0.999),
    "rays": click.IntRange(1, 4096),
    "repeats": click.IntRange(1, 1000),
    "scenes": click.IntRange(1, 9999),
    "seed": click.IntRange(0),
    "settle": plain,
    "size": click.IntRange(16, 4096),
    "test": _SHARE,
    "timeout": _ABOVE_0,
    "val": _SHARE,
}
_PLACEHOLDERS = {"FILE": PATH, "DIR": PATH, "PATH": PATH, "N": int}


class Spec(NamedTuple):
    """An option.

    Attributes:
        group: One of `GROUPS`, or empty.
        flags: Its flags, the long one last.
        metavar: The placeholder of its value; empty for a switch and for one of several values.
        type: The type of its value; None for a switch, a text, or the type of its key.
        text: What it is for; empty for the text of its key.
        brief: Its line in the short help of a long command.
        multiple: Whether it can usually be repeated.
    """

    group: str
    flags: list[str]
    metavar: str
    type: Any
    text: str
    brief: str
    multiple: bool

    @property
    def flag(self) -> str:
        """The long flag."""
        return self.flags[-1].partition("/")[0]


def _specs() -> dict[str, Spec]:
    specs = {}
    for group, options in _TABLE.items():
        for usage, text in options.items():
            words = usage.split()
            flags = [word.strip(",") for word in words if word.startswith("-")]
            metavar = "".join(word for word in words if word[0] not in "-.")
            flag = flags[-1].partition("/")[0][2:].replace("-", "_")
            name = _NAMES.get(flag, flag)
            kind = _TYPES.get(name) or _PLACEHOLDERS.get(metavar)
            if metavar.startswith("{"):
                metavar, kind = "", click.Choice(metavar[1:-1].split(","))
            specs[name] = Spec(group, flags, metavar, kind, text, _BRIEF.get(name, ""), words[-1] == "...")
    return specs


SPECS = _specs()
"""The options by the parameter of the command that gets the value."""


def keys_by_group() -> dict[str, list[str]]:
    """List the parameters and the keys of run.yaml without an option, by group."""
    names = {group: [name for name, spec in SPECS.items() if spec.group == group] for group in GROUPS}
    return {group: [*listed, *_WITHOUT.get(group, "").split()] for group, listed in names.items()}


def flag_of(key: str) -> str:
    """Return how a message names the option that sets a key of run.yaml: `--max-cost`, `--set limits.attempts`."""
    name = key.removeprefix("limits.").removesuffix(".model")
    return SPECS[name].flag if name in SPECS else f"--set {key}"

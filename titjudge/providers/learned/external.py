"""A learned metric that a command of the user's own computes: JSONL in, JSONL out, one run for each batch.

For models that need a separate environment (LMM4LMM, VisionReward) or a third-party scorer. The command of
`external/NAME` is in the environment variable `TITJUDGE_EXTERNAL_NAME` (upper case, every other character an underscore):
a command line, or the path of a YAML file with `command` (a list of words, or one line), `timeout` (seconds for one
batch; 3600), `batch_size` (256), `version` (raise it when the answers change) and `pass_environment` (names of variables
the command may see; `NAME*` for all that begin so). It sees only these others, which programs need to run: PATH, HOME,
the language, the time zone, temporary folders, proxies, Python, Conda, CUDA, threads and the caches of models.

The command reads on its standard input one JSON object per line: {"id", "prompt", "image"}, `image` being the path of a
file that lives as long as the command. It writes on its standard output one JSON object per line: {"id", "score"}, and if
it likes "tokens_used" and "tokens_total" (both or none), "parts" (numbers by name) and "reason"; "score": null with a
reason means that it has no score. No shell is involved. A missing, double, late or invalid line is a failure with its
reason, never a score.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path

from titjudge.core.errors import ConfigError, DataError, Unanswered, must_be, unknown
from titjudge.core.files import read_yaml
from titjudge.core.numbers import is_number
from titjudge.core.types import Json, ProviderSettings, Reply, Request, Status, Usage, Values
from titjudge.providers.learned.base import LearnedMetricProvider
from titjudge.providers.learned.subprocess import ProcessOutcome, run
from titjudge.providers.local.base import Outcomes

OPTIONS = frozenset("batch_size command pass_environment timeout version".split())
_ENDINGS = {"image/png": ".png", "image/jpeg": ".jpg", "image/webp": ".webp", "image/gif": ".gif"}
_PASSED = tuple(  # environment variables that any program may see
    (
        "PATH HOME USER LOGNAME SHELL LANG LANGUAGE LC_* TZ TERM TMPDIR TEMP TMP PWD XDG_CACHE_HOME "
        "XDG_CONFIG_HOME XDG_DATA_HOME XDG_RUNTIME_DIR LD_LIBRARY_PATH LIBRARY_PATH DYLD_* VIRTUAL_ENV "
        "CONDA_PREFIX CONDA_DEFAULT_ENV PYTHONPATH PYTHONHOME PYTHONUNBUFFERED PYTHONUTF8 "
        "PYTHONIOENCODING PYTHONHASHSEED CUDA_* NVIDIA_VISIBLE_DEVICES NVIDIA_DRIVER_CAPABILITIES "
        "ROCR_VISIBLE_DEVICES HIP_VISIBLE_DEVICES ZE_AFFINITY_MASK OMP_* MKL_* OPENBLAS_* NUMEXPR_* "
        "TOKENIZERS_PARALLELISM PYTORCH_* TORCH_HOME HF_HOME HF_HUB_CACHE HF_HUB_OFFLINE "
        "HF_DATASETS_CACHE HF_ENDPOINT HUGGINGFACE_HUB_CACHE TRANSFORMERS_CACHE TRANSFORMERS_OFFLINE "
        "XLA_* SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE http_proxy https_proxy no_proxy all_proxy "
        "HTTP_PROXY HTTPS_PROXY NO_PROXY ALL_PROXY"
    ).split()
)
_LARGEST = 64 * 2**20  # bytes; larger files in the command do not enter the identity
_LINE = 64 * 2**10  # bytes of output that one request may need


def variable(name: str) -> str:
    """Return the name of the environment variable with the command of `external/NAME`."""
    return "TITJUDGE_EXTERNAL_" + re.sub(r"[^A-Z0-9]", "_", name.upper())


@dataclass(frozen=True, slots=True)
class ScoringCommand:
    """The command and its limits.

    Attributes:
        words: Program and arguments; no shell reads them.
        timeout: Seconds for a whole batch.
        batch_size: Most images that it is given at once.
        version: The user's own; part of the key of a score.
        pass_environment: Names of environment variables that it gets besides the usual ones; `NAME*` stands for several.
    """

    words: tuple[str, ...]
    timeout: float = 3600.0
    batch_size: int = 256
    version: str = ""
    pass_environment: tuple[str, ...] = ()


def command_of(name: str, options: Values) -> ScoringCommand:
    """Find the command of `external/NAME`: from the role's options, otherwise from its environment variable.

    Raises:
        ConfigError: There is none, it is malformed, or its program does not exist.
    """
    where, settings = f"options of external/{name}", dict(options)
    if "command" not in settings:
        where = variable(name)
        value = os.environ.get(where, "").strip()
        if not value:
            raise ConfigError(
                f"external/{name} has no command. Set {where} to a command line that reads and writes JSONL, or to a "
                "YAML file with 'command'"
            )
        settings = (_file(where, Path(value)) if value.endswith((".yaml", ".yml")) else {"command": value}) | settings
    strange = sorted(set(settings) - OPTIONS)
    if strange:
        raise ConfigError(f"{where}: {unknown('key', strange[0], sorted(OPTIONS))}")
    return _checked(where, settings)


def _file(where: str, path: Path) -> Json:
    content = read_yaml(path.expanduser(), "the file of a command", where)
    if "command" not in content:
        raise ConfigError(f"{where}: {path} must be a mapping with the key 'command'")
    return {str(key): value for key, value in content.items()}


def _checked(where: str, settings: Values) -> ScoringCommand:
    """Read the settings of a command.

    Raises:
        ConfigError: One has the wrong type, or the program does not exist.
    """
    command = settings["command"]
    try:
        words = shlex.split(command) if isinstance(command, str) else [str(word) for word in command]
        timeout, size = float(settings.get("timeout", 3600)), int(settings.get("batch_size", 256))
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{where}: {error}. Correct the entry") from error
    if not words or any("\0" in word for word in words):
        raise ConfigError(f"{where}: the command is empty or contains a zero byte. Write a command line")
    if not (0 < timeout < math.inf) or size < 1:
        raise ConfigError(f"{where}: timeout ({timeout:g}) and batch_size ({size}) must be positive numbers")
    if shutil.which(words[0]) is None:
        raise ConfigError(f"{where}: program '{words[0]}' not found. Install it, or give its path")
    passed = settings.get("pass_environment") or ()
    if isinstance(passed, str) or not all(isinstance(name, str) for name in passed):
        raise ConfigError(f"{where}: {must_be('pass_environment', 'a list of names', passed)}")
    return ScoringCommand(tuple(words), timeout, size, str(settings.get("version", "")), tuple(passed))


class External(LearnedMetricProvider):
    """A command that scores; it is started for each batch and ends with it.

    Args:
        settings: `model` is the name; `options` may have the keys of the YAML file (module docstring).

    Raises:
        ConfigError: There is no command, or it cannot be run.
    """

    name = "external"

    def __init__(self, settings: ProviderSettings) -> None:
        if not settings.model:
            raise ConfigError("'external' has no scorer. Write external/NAME")
        self.model = settings.model
        self.command = command_of(settings.model, settings.options)
        super().__init__(self.command.batch_size)
        self.account = f"external|{settings.model}"
        self._closing = False

    @cached_property
    def base_url(self) -> str:
        """The identity of the scorer: the words of the command, its `version` and the contents of the files among its words."""
        digest = hashlib.sha256(json.dumps([self.command.words, self.command.version]).encode())
        for word in self.command.words:
            path = Path(word)
            try:
                if path.is_file() and path.stat().st_size <= _LARGEST:
                    digest.update(hashlib.sha256(path.read_bytes()).digest())
            except OSError:
                continue
        return f"external:{digest.hexdigest()[:32]}"

    def load(self) -> None:
        return None

    def _run(self, requests: list[Request]) -> Outcomes:
        with tempfile.TemporaryDirectory(prefix="titjudge-external-") as folder:
            lines, results = _write_input(requests, Path(folder))
            if not lines:
                return [results[n] for n in range(len(requests))]
            outcome = run(
                self.command.words,
                "".join(lines.values()).encode(),
                timeout=self.command.timeout,
                limit=2**20 + _LINE * len(lines),
                environment=_environment(self.command.pass_environment),
                stopping=lambda: self._closing,
            )
        answers, why = read(outcome, set(lines))
        for id_ in lines:
            answer = answers.get(id_, why)
            results[int(id_)] = self._reply(answer) if isinstance(answer, dict) else Unanswered(Status.FAILED, answer)
        return [results[n] for n in range(len(requests))]

    def _reply(self, measurement: Json) -> Reply:
        return Reply(
            json.dumps(measurement),
            usage=Usage(input=measurement.get("tokens_used") or 0),
            finish_reason="stop",
            model_version=self.command.version or self.base_url.removeprefix("external:")[:12],
            endpoint=f"external {Path(self.command.words[0]).name}",
        )

    async def aclose(self) -> None:
        self._closing = True
        await super().aclose()


def _write_input(requests: Sequence[Request], folder: Path) -> tuple[dict[str, str], dict[int, Reply | Exception]]:
    """Write the images into a folder; returns the command's input lines by id, and the errors of requests without an image."""
    lines: dict[str, str] = {}
    results: dict[int, Reply | Exception] = {}
    for n, request in enumerate(requests):
        image = request.images[0]
        path = folder / f"{n}{_ENDINGS.get(image.media_type, '.img')}"
        try:
            path.write_bytes(image.load())
        except (DataError, OSError) as error:
            results[n] = Unanswered(Status.BAD_INPUT, str(error))
            continue
        record = {"id": str(n), "prompt": request.messages[-1].text, "image": str(path)}
        lines[str(n)] = json.dumps(record) + "\n"
    return lines, results


def _environment(passed: Sequence[str]) -> dict[str, str]:
    """Choose the environment variables that the command gets: no API key, unless the user names it."""
    patterns = (*_PASSED, *(name for name in passed if name.endswith("*")))
    return {
        name: value
        for name, value in os.environ.items()
        if name in passed or any(fnmatchcase(name, pattern) for pattern in patterns)
    }


def read(outcome: ProcessOutcome, ids: set[str]) -> tuple[dict[str, Json | str], str]:
    """Read what a command answered: by id a measurement or the reason of a failure, and the reason for ids without a line.

    A complete line counts even if the command then crashed or ran out of time; an id with two lines does not.
    """
    answers: dict[str, Json | str] = {}
    stray = 0
    lines = () if outcome.overflow else outcome.output.split(b"\n")
    for line in filter(bytes.strip, lines):
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            value = None
        id_ = str(value.get("id")) if isinstance(value, dict) else ""
        if id_ not in ids:
            stray += 1
        elif id_ in answers:
            answers[id_] = "the command answered this id more than once"
        else:
            answers[id_] = _measurement(value)
    of_stray = f"; {stray} lines of its output are not answers to the questions" if stray else ""
    return answers, f"{_ending(outcome)}{of_stray}"


def _ending(outcome: ProcessOutcome) -> str:
    """Describe how a command ended that gave no answer."""
    last = f": {outcome.last_words}" if outcome.last_words else ""
    if outcome.overflow:
        return f"the command wrote more than {outcome.limit} bytes{last}"
    if outcome.late:
        return f"the command did not answer within {outcome.timeout:g} s{last}"
    if outcome.code:
        how = f"ended with exit code {outcome.code}" if outcome.code > 0 else f"was ended by signal {-outcome.code}"
        return f"the command {how} and did not answer{last}"
    return f"the command did not answer{last}"


def _measurement(value: Values) -> Json | str:
    """Check a line of a command's output: the measurement in it, or what is wrong."""
    score, used, total = value.get("score"), value.get("tokens_used"), value.get("tokens_total")
    reason = " ".join(str(value.get("reason") or "").split())[:400]
    if score is None:
        return f"the command gave no score{': ' + reason if reason else ''}"
    if not is_number(score):
        return f"the command's score is not a finite number: {str(score)[:60]!r}"
    counts = [number for number in (used, total) if number is not None]
    if len(counts) == 1 or any(
        not isinstance(number, int) or isinstance(number, bool) or number < 0 for number in counts
    ):
        return "tokens_used and tokens_total are two counts, or neither is given"
    if counts and counts[0] > counts[1]:
        return "the command read more tokens than there are"
    parts = value.get("parts") or {}
    if not isinstance(parts, dict) or not all(is_number(part) for part in parts.values()):
        return "parts is not an object of finite numbers"
    return {"score": float(score), "tokens_used": used, "tokens_total": total, "parts": parts, "reason": reason}


__all__ = ["External", "ScoringCommand", "command_of", "read", "variable"]

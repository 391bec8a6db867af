"""Measures of plain English: constructions that readers stumble over, length of sentences, dropped words of the glossary."""

import ast
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

ODD = {
    r"(?<![Tt]here )\b(?:is|are|was|were) no (?!longer|more|better|worse|less|other|need|way|such)\w": "is not a X",
    r"\b[Ss]tands?\b(?! for)|\bstood\b": "is, appears, is listed",
    r"\b(?:one's|your|its|their|our|my) own\b|\bof (?:yours|ours|theirs)\b": "your, separate",
    r"\b(?:that|those) of\b|\bthose (?:that|who|which|with|on|in)\b": "repeat the noun",
    r"(?:^|[.;:,] |\b(?:of|and|to|by|with) )[Ww]hat (?!is meant|does |do |did )[a-z]+ ": "name the thing",
    r"(?:^|[.;:] )Who(?:ever)? |\b(?:of|for|by|and) who\b|\bwhoever\b": "the person who",
    r"(?:^|[.;:] )Where (?!to |the )|\bwhere (?:there (?:is|are)|it|they|one|none|no|some)\b": "if, when",
    r"(?:^|[;,.] )[Ee]lse\b|\band else\b": "otherwise",
    r"\bin (?:the |its )?place of\b": "instead of",
    r"\b[Mm]end(?:s|ed|ing)?\b": "correct",
    r"\banew\b": "again",
    r"\b[Hh]ow far\b": "how well, how much",
    r"\b(?:holds?|held)\b": "covers, applies, contains, is true",
    r"\bgo(?:es)? (?:with|by)\b": "can only be used with; depends on",
    r"\b(?:is|are) (?:then )?(?:left out and )?named\b(?! (?:after|by))": "is reported",
    r"\b(?:says?|said|tells?|told)\b": "prints, reports, shows",
    r"\b[Tt]he same (?:command|call)\b": "run the command again",
    r"\bcan(?:not)? be (?:had|told)\b|\bis to be (?:seen|had|found)\b": "is not available",
    r"\b[Ss]o (?:many|much|few)\b(?! that| as)": "too many, too few",
    r"\bfor want of\b|, but for\b|\banother \w+ than\b|\bsomething else than\b|\b(?:other|another) than\b": "except",
    r"\b[Ii]f one (?:has|needs|wants|likes|gives|sees)\b": "if you",
    r"\b(?:[Nn]o|[Ss]ome|[Ee]very)body\b": "no one, someone, everyone",
    r"\b(?:one|prompt|line|image|request|row|column|question|point)s? an? "
    r"(?:line|prompt|image|run|metric|generator|minute|step|request|item)\b": "one X per Y",
    r"\b[\w,]+ at (?:most|least)\b(?= *[,.;:)])": "at most N",
    r"\b(?:is|are|was) wanted\b": "is expected",
    r"\b[Ll]ack(?:s|ed|ing)?\b": "has no, is missing",
    r"(?<![\w.\d/@-])\.\d{1,4}(?!\d*[.\w/-])": "0.05",
}
"""Constructions that are odd in nearly all places, with what plain English has instead."""
DROPPED = {
    r"painters?|describers?": "generator; captioner", r"orchestrators?|evaluators?|jury": "judge", r"bribes?": "score inflation",
    r"canar(?:y|ies)": "drift check", r"dear(?:er|est)?": "expensive", r"couples?": "pair", r"succession": "score mapping",
    r"carr(?:y|ied|ies) over": "map", r"stand-ins?|walk": "dry run", r"receipts|journals?": "ledger, stored answers",
    r"houses?|wing|rooms?|doors?|eyes?|riddles?": "the plain noun", r"settle[sd]?|races?": "early stopping", r"roll-outs?": "sample",
    r"gold": "attention check, reference judge", r"chance level": "chance threshold", r"photos?": "image",
}  # fmt: skip
"""Words that the glossary drops (whole words outside of code), with the term instead."""


def prose(page: str) -> str:
    """Return the sentences of a Markdown page, without code, tables, headings, generated and measured parts."""
    page = re.sub(r"<!-- (generated|measured).*?<!-- end(?: measured)? -->|<!--.*?-->", "\n\n", page, flags=re.DOTALL)
    page = re.sub(r"```.*?```", "\n\n", page, flags=re.DOTALL)
    page = re.sub(r"(?m)^\s*\|.*$|^#+ .*$", "", page)
    page = re.sub(r"!\[[^\]]*\]\([^)]*\)", "", page)
    page = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", page)
    return re.sub(r"`[^`]*`", "CODE", page).replace("*", "")


def headings(page: str) -> list[str]:
    page = re.sub(r"```.*?```|<!-- generated.*?<!-- end -->", "", page, flags=re.DOTALL)
    return re.findall(r"^#+ (.+)$", page, re.MULTILINE)


def words(text: str) -> list[str]:
    return re.findall(r"[A-Za-z][A-Za-z'-]*", text)


def sentences(text: str) -> list[str]:
    """Split prose into sentences; a paragraph or an item of a list ends one too."""
    blocks = [" ".join(block.split()) for block in re.split(r"\n\s*\n|\n\s*(?=[-*] |\d+\. )", text)]
    found = [each for block in blocks for each in re.split(r"(?<=[.!?])\s+(?=[A-Z\"'(]|titjudge)", block)]
    return [each for each in found if len(words(each)) > 2]


def hits(text: str, patterns: dict[str, str]) -> list[str]:
    """Quote each place with an odd construction, or with a dropped word, and give the plain words."""
    flat = " ".join(text.split())
    return [
        f"...{flat[max(0, found.start() - 40) : found.end() + 30]}... ({plain})"
        for pattern, plain in patterns.items()
        for found in re.finditer(pattern if patterns is ODD else rf"(?i)(?<![\w-])(?:{pattern})(?![\w-])", flat)
    ]


PACKAGE = Path(__file__).resolve().parents[1] / "titjudge"
VALUE = "X"
"""What stands for a value in a text that a program fills in."""
PASSED_ON = "a message of titjudge"
"""What stands for the message of an error of titjudge that was caught: it has its own action."""
OURS = (
    "UserError", "ConfigError", "DataError", "BadRequest", "FatalProviderError", "CacheWriteError", "BudgetExhausted",
    "PicklingError", "InvalidItem", "AnswerProblem", "Problem",
)  # fmt: skip
"""Errors whose message a person reads as it is."""
OF_ROWS = ("InvalidItem", "AnswerProblem", "Problem")
"""Records of rows and images that cannot be judged: their name, and the reason that is printed behind it."""
FORMS = {
    "must_be": "{} must be {}, not X",
    "unknown": "unknown {} 'X'. Known: X",
    "not_combined": "{} cannot be combined with {}. Remove one of them",
    "rule_of": "must be X",
    "nearest": "",
    "file_fault": "X. Correct the path",
    "first_fault": "X. Correct it",
    "json_fault": "X. Correct it",
    "_yaml_fault": "line X: X. Correct it",
}
"""The helpers of core/errors.py that write messages."""


def or_lower(verbs: list[str]) -> str:
    return f"(?:{'|'.join([*verbs, *map(str.lower, verbs)])})"


def literal(node: ast.AST) -> str:
    """The text of a literal, of an f-string with `VALUE` for its values, and of parts that are joined; else empty."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else VALUE for part in node.values)
    if isinstance(node, ast.BinOp):
        return f"{literal(node.left) or VALUE}{literal(node.right) or VALUE}"
    return ""


ACTIONS = """
Add Aggregate Align Answer Ask Begin Bring Call Change Check Choose Close Collect Complete Copy Correct Count Cover Create Declare Delete Divide Double
Download End Fill Flatten Free Generate Give Increase Indent Install Judge Keep Leave Let Load Lower Make Merge Move Name Print Put Remove Reload Rename Repeat
Replace Report Restore Review Run Save Score See Send Set Shorten Start Try Type Unpack Unset Update Use Wait Write
""".split()
"""The verbs that begin a next action."""
HAS_ACTION = re.compile(
    rf"(?:^|[.;:)] ){or_lower(ACTIONS)}\b|must\b|\brequires?\b|\bKnown: |Did you mean|cannot be combined with|pip install '|{PASSED_ON}"
)
"""A next action: an imperative after the fault, or a form that gives it, such as "must be one of a, b"."""


HAS_VALUE = re.compile(
    rf"(?<![A-Za-z])X+s?(?![A-Za-z])|(?<!UTF-)(?<!\d)\d|--[a-z]|'[^']+'|`[^`]+`|^[A-Z]+ is missing|\w_\w|\{{\w+\}}|{PASSED_ON}|standard input"
)
"""A value, or the name of an option, an argument, a key or a command: the fault, or its place."""


def messages(*, helpers: bool = True) -> dict[str, str]:
    """The texts of all errors that titjudge raises, by file and line; with or without the texts that helpers write."""
    return {place: message.text for place, message in raised(helpers=helpers).items()}


class Message(NamedTuple):
    """A message of an error, or the reason of a row.

    Attributes:
        kind: The first of `OURS` that its class is, or the last of the bases of its class.
        text: Its text.
        added: Words that its class or a function adds.
        placed: Whether it carries its file or the name of its row, which are printed before it.
    """

    kind: str
    text: str
    added: str
    placed: bool

    @property
    def has_value(self) -> bool:
        return HAS_VALUE.search(f"{self.text} {self.added}") is not None

    @property
    def has_action(self) -> bool:
        return HAS_ACTION.search(f"{self.text} {self.added}") is not None


@cache
def raised(*, helpers: bool = True) -> dict[str, Message]:
    """Each error that titjudge raises, and each reason of a row, by file and line."""
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(PACKAGE.rglob("*.py"))}
    package = Package(trees.values())
    found = {}
    for path, tree in trees.items():
        filled = Filled(tree, package)
        for node in ast.walk(tree):
            made = node.exc if isinstance(node, ast.Raise) else node
            if not isinstance(made, ast.Call):
                continue
            name = ast.unparse(made.func).rpartition(".")[2]
            if node is made and name not in (*OF_ROWS, "DataError"):
                continue
            for argument in (*made.args[name in OF_ROWS :], *(keyword.value for keyword in made.keywords)):
                text = filled.text(argument) if helpers else literal(argument)
                if " " in text:
                    keys = {keyword.arg for keyword in made.keywords}
                    placed = name in OF_ROWS or (
                        package.kind(name) == "DataError" and (len(made.args) > 1 or "path" in keys)
                    )
                    place = f"{path.relative_to(PACKAGE)}:{made.lineno}"
                    found[place] = Message(package.kind(name), text, package.added(name), placed)
                    break
    return found


class Package:
    """The classes and the functions of titjudge, by name: which errors they make, and the words that they write."""

    def __init__(self, trees: Iterable[ast.Module]) -> None:
        self._bases: dict[str, list[str]] = {}
        self._added: dict[str, str] = {}  # words of the errors that a class or a function makes
        self.helpers: dict[str, list[ast.expr]] = {}  # texts that functions return
        for tree in trees:
            for node in ast.walk(tree):
                if isinstance(node, ast.ClassDef):
                    self._bases[node.name] = [ast.unparse(base).rpartition(".")[2] for base in node.bases]
                    calls = [part for part in ast.walk(node) if isinstance(part, ast.Call)]
                    texts = [
                        literal(call.args[0]) for call in calls if call.args and "__init__" in ast.unparse(call.func)
                    ]
                    self._added[node.name] = " ".join(texts)
                elif isinstance(node, ast.FunctionDef) and node.returns:
                    made = [part.value for part in ast.walk(node) if isinstance(part, ast.Return) and part.value]
                    returns = ast.unparse(node.returns).strip("'").rpartition(".")[2]
                    if returns == "str" and made:
                        self.helpers.setdefault(node.name, []).extend(made)
                    elif returns.endswith(("Error", "Exception", "Failure", "Unanswered")):
                        self._bases.setdefault(node.name, [returns])
                        words_of = [literal(part) for value in made for part in ast.walk(value)]
                        self._added.setdefault(node.name, " ".join(words_of))

    def kind(self, name: str) -> str:
        """The first of `OURS` that a class, or what a function makes, is; otherwise its name."""
        if name in OURS or name not in self._bases:
            return name
        kinds = [self.kind(base) for base in self._bases[name] if base != name]
        return next((kind for kind in kinds if kind in OURS), kinds[0] if kinds else name)

    def added(self, name: str) -> str:
        return self._added.get(name, "") if name not in ("DataError", "Unclear") else ""


class Filled:
    """Fills the texts of a module in: helpers, names, and messages of titjudge that are passed on.

    Of several texts that a name or a helper can be, it takes one without an action if there is one.
    """

    def __init__(self, tree: ast.Module, package: Package) -> None:
        self._package = package
        self._named: dict[tuple[int, str], list[ast.expr]] = {}  # by function, or 0
        self._scopes: dict[int, int] = {}  # the innermost function of each node
        self._passed: dict[int, str] = {}  # parts of a handler of our errors
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                self._scopes |= {id(part): id(node) for part in ast.walk(node)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign | ast.NamedExpr):
                target = node.targets[0] if isinstance(node, ast.Assign) else node.target
                if isinstance(target, ast.Name):
                    self._named.setdefault((self._scopes.get(id(node), 0), target.id), []).append(node.value)
            elif isinstance(node, ast.ExceptHandler) and node.name and ast.unparse(node.type or node) in OURS:
                self._passed |= {id(part): node.name for part in ast.walk(node)}

    def text(self, node: ast.AST, depth: int = 0) -> str:
        def inner(part: ast.AST) -> str:
            return self.text(part, depth + 1)

        if depth > 8:
            return VALUE
        if self._passed.get(id(node)) == ast.unparse(node).removeprefix("str(").removesuffix(")").removesuffix(
            ".message"
        ):
            return PASSED_ON
        if isinstance(node, ast.JoinedStr):
            return "".join(map(inner, node.values))
        if isinstance(node, ast.FormattedValue):
            return inner(node.value)
        if isinstance(node, ast.Constant):
            return node.value if isinstance(node.value, str) else VALUE
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            return inner(node.left) + inner(node.right)
        if isinstance(node, ast.IfExp):
            near = isinstance(node.test, ast.Name) and "nearest(" in str([*map(ast.unparse, self._values(node.test))])
            return weakest([f"{inner(node.body)}{' Did you mean' * near}", inner(node.orelse)])
        if isinstance(node, ast.BoolOp):
            return weakest([text for text in map(inner, node.values) if text])
        if isinstance(node, ast.Name):
            texts = [*map(inner, self._values(node))]
            return weakest([text for text in texts if text] or texts)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id in FORMS:
                return FORMS[node.func.id].format(*map(inner, node.args))
            return weakest([text for text in map(inner, self._package.helpers.get(node.func.id, ())) if text])
        return VALUE

    def _values(self, name: ast.Name) -> list[ast.expr]:
        scope = self._scopes.get(id(name), 0)
        return self._named.get((scope, name.id)) or self._named.get((0, name.id)) or []


def weakest(texts: list[str]) -> str:
    """The first text without an action, otherwise the first."""
    return next((text for text in texts if not HAS_ACTION.search(text)), texts[0] if texts else VALUE)


_NO_PROSE = re.compile(r"\.(?:js|css)\b|:not\(")
"""Names of files and selectors, in literals that have words too."""
_SCRIPT_TEXT = re.compile(r"\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\.)*`")


def report_texts() -> dict[str, str]:
    """The sentences of reports and pages, by file: literals of Python of four words or more, templates and scripts."""
    found = {}
    for package in ("report", "web"):
        for path in sorted((PACKAGE / package).rglob("*")):
            if path.suffix == ".py":
                texts = _sentences_of(ast.parse(path.read_text(encoding="utf-8")))
            elif path.suffix == ".html":
                page = re.sub(
                    r"<(script|style).*?</\1>|\{[%#].*?[%#]\}", " ", path.read_text(encoding="utf-8"), flags=re.DOTALL
                )
                texts = re.split(
                    r"</?(?:p|div|li|td|th|tr|h\d|button|label|option|section|summary|br|title|span|a)\b[^>]*>", page
                )
                texts = [re.sub(r"<[^>]+>|\{\{.*?\}\}", VALUE, text) for text in texts]
            elif path.suffix == ".js":
                script = re.sub(r"(?m)^\s*//.*$|/\*.*?\*/", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
                texts = [re.sub(r"\$\{[^}]*\}", VALUE, text[1:-1]) for text in _SCRIPT_TEXT.findall(script)]
            else:
                continue
            kept = [" ".join(text.split()) for text in texts if len(words(text)) > 3 and not _NO_PROSE.search(text)]
            if kept:
                found[str(path.relative_to(PACKAGE))] = "\n\n".join(kept)
    return found


def _sentences_of(tree: ast.Module) -> list[str]:
    """Literals of a module that are no docstring, no part of an f-string and no message."""
    skipped = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            skipped |= {id(part) for part in node.values}
        elif isinstance(node, ast.Raise):
            skipped |= {id(part) for part in ast.walk(node)}
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            skipped.add(id(node.value))
    return [
        literal(node)
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant | ast.JoinedStr) and id(node) not in skipped
    ]


def docstrings() -> dict[str, str]:
    """All docstrings of titjudge, by file and line."""
    return {
        f"{path.relative_to(PACKAGE)}:{getattr(node, 'lineno', 1)}": text
        for path in sorted(PACKAGE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and (text := ast.get_docstring(node))
    }

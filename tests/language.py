"""Measures of plain English: constructions that readers stumble over, length of sentences, dropped words of the glossary."""

import re

ODD = {
    r"(?<!there )\b(?:is|are|was|were) no (?!longer|more|better|worse|less|other|need|way|such)\w": "is not a X",
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

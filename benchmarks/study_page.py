"""What the parts of the study have in common: tables in Markdown, figures that can be read on a page of either theme."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.svg import Drawing
from titjudge.stats.bootstrap import Interval

Figures = dict[str, str]  # name of a file -> SVG
Found = tuple[str, Figures]

_STYLE = (
    "<style>svg{font-family:system-ui,sans-serif}.card{fill:#fff}.f-ink{fill:#1c2024}.f-soft{fill:#5b6470}.s-grid{stroke:#d9dde2}"
    ".s-soft{stroke:#5b6470}.f-c0{fill:#1f6fb2}.s-c0{stroke:#1f6fb2}.f-c1{fill:#b5531c}.s-c1{stroke:#b5531c}"
    "@media(prefers-color-scheme:dark){.card{fill:#1c2024}.f-ink{fill:#eceff2}.f-soft{fill:#a9b2bc}.s-grid{stroke:#3a424b}"
    ".s-soft{stroke:#a9b2bc}.f-c0{fill:#6cb4ee}.s-c0{stroke:#6cb4ee}.f-c1{fill:#f0935a}.s-c1{stroke:#f0935a}}</style>"
)


def figure(width: float, height: float) -> Drawing:
    """Begin a figure on a card of its own, so that it can be read on a page of either theme."""
    drawing = Drawing(width, height)
    drawing.add("rect", "card", x=0.0, y=0.0, width=width, height=height, rx=8.0)
    return drawing


def standalone(drawing: Drawing) -> str:
    """Return the text of an SVG file that brings its colours with it."""
    opened, _, rest = str(drawing).partition(">")
    return opened.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1) + f">{_STYLE}{rest}\n"


def rule(drawing: Drawing, start: tuple[float, float], end: tuple[float, float], name: str = "s-grid") -> None:
    """Draw a thin line."""
    drawing.add("line", name, x1=start[0], y1=start[1], x2=end[0], y2=end[1], stroke_width="1")


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Write Markdown, numbers to the right."""
    lines = [columns, ["---", *["---:"] * (len(columns) - 1)], *rows]
    return "\n".join(f"| {' | '.join(each)} |" for each in lines)


def percent(value: float, interval: Interval | None = None) -> str:
    """`68.3% [64.5, 71.7]`."""
    ends = f" [{100 * interval[0]:.1f},\u00a0{100 * interval[1]:.1f}]" if interval else ""
    return f"{100 * value:.1f}%{ends}"


def judges_figure(
    drawn: Sequence[tuple[str, float, Interval]], single: Sequence[float], most: float = 0.8, what: str = "images"
) -> str:
    """Draw the agreement of each judge with people, with its interval, over the range of single people."""
    left, right, top, high, low = 150.0, 690.0, 46.0, 21.0, 0.45
    drawing = figure(720, top + high * len(drawn) + 44)
    bottom = top + high * len(drawn)

    def at(share: float) -> float:
        return left + (right - left) * (share - low) / (most - low)

    drawing.add(
        "rect", "f-c1", x=at(min(single)), y=top - 6, width=at(max(single)) - at(min(single)), height=bottom - top + 6,
        fill_opacity="0.22",
    )  # fmt: skip
    drawing.text((at(min(single)) + at(max(single))) / 2, top - 14, "one person")
    drawing.text(at(0.5), top - 14, "coin")
    for k in range(round((most - low) / 0.05) + 1):
        share = low + 0.05 * k
        rule(drawing, (at(share), top - 6), (at(share), bottom), "s-soft" if k == 1 else "s-grid")
        drawing.text(at(share), bottom + 16, f"{share:.0%}")
    for k, (name, value, (first, last)) in enumerate(drawn):
        y = top + high * (k + 0.5)
        drawing.text(left - 10, y + 4, name, anchor="end", soft=False)
        drawing.line([(at(max(first, low)), y), (at(min(last, most)), y)], 0)
        drawing.mark(at(value), y, 0)
    drawing.text(
        (left + right) / 2, bottom + 34, f"pairs of {what} ordered as people do, 95% interval; equal scores count half"
    )
    return standalone(drawing)

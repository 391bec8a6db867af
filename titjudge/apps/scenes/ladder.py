"""The ladder: scenes of 25, 40 or 60 groups with small things, for judges that pass the crowds from one look; its templates.

A group has one attribute that the prompt asks for. An error is one thing, one letter or one exchange in a group, checked by
its pixels and annotated with its place.
"""

from __future__ import annotations

from titjudge.apps.scenes.cabinet import Cabinet
from titjudge.apps.scenes.scene import Options
from titjudge.apps.scenes.shelves import Shelves
from titjudge.apps.scenes.stand import Stand
from titjudge.apps.scenes.template import Template

TEMPLATES: dict[str, Template] = {template.name: template for template in (Cabinet(), Stand(), Shelves())}
MIXED = "mixed"  # all templates, in turns


def template_of(name: str, number: int) -> tuple[Template, int]:
    """Return the template of a scene, and its number among the scenes of that template.

    So a mixed set of N templates holds the first scenes that each template alone has with the same seed.
    """
    if name != MIXED:
        return TEMPLATES[name], number
    templates = list(TEMPLATES.values())
    return templates[number % len(templates)], number // len(templates)


_TEXT = """\
# Known-answer scenes

{prompts} prompts, {images} images, {pairs} pairs for testing text-to-image judges, made by

    python cli.py known-answer make --scenes {scenes} --seed {seed} --size {size} --samples {samples} --levels {levels}{hard} --out DIR

The adherence of every image to its long prompt is known by construction: the scenes are still lifes on a table, composed
from a seeded grammar and path traced (Mitsuba 3, {samples} samples a pixel, then smoothed along surfaces). Nobody's
opinion is in the labels, and nobody looked: instead every object is rendered as object ids, together with the others and
alone, and a scene is drawn again until each object that the annotation names is uncropped, large enough and not hidden,
groups have as many objects in sight as they should, left, right and behind agree with where the pixels are, and nothing
stands before the words of the sign. Camera, light and places are the same at all levels of a scene.

{crowd}* level 0: everything the prompt asks for
* level 1: one error; its kind goes round from scene to scene (missing entity, wrong attribute, wrong count, swapped
  relation, misspelt text). A missing entity takes its attributes and relations with it, and a swap concerns up to two relations
* level 2: 26-34 % of the graph elements wrong or missing
* level 3: 60-70 % of the graph elements wrong or missing

The same command gives the same bytes again with the same versions of titjudge, Mitsuba, numpy and Pillow on the same kind of
machine. `made.json` keeps the options, `.made/` what is finished, so that the command goes on where it stopped; judging
needs neither.

## Files and fields

As in the bundled example: `prompts.jsonl` (`prompt`, `questions`, `gold_answers`: what the prompt requires, `graph`,
`text_words`), `images.jsonl` (`level`, `alignment`, `entity_scores`, `attribute_scores`, `relation_scores`, `answers`: true
of this image, `text_present`), `pairs.jsonl`. Besides, `errors` of an image lists the planted errors: `kind`, `element` of
the graph, what was `asked`, what is `shown`; errors of things that are missing altogether are not listed apart.

`alignment` = aligned elements / all elements; entities, attributes and relations count equally. An object of another kind in
the place of a required one is a missing entity. `variant_model` is a stand-in for a generator: no name equals a level, but
the mean alignment per name differs on purpose. Left and right are the viewer's.

## Judging

    python cli.py judge --suite known-answer --data DIR --captioner PROVIDER/MODEL --judge PROVIDER/MODEL
    python cli.py probe --data DIR --captioner PROVIDER/MODEL --judge PROVIDER/MODEL

There is no descriptions.jsonl, since nobody described these images: metrics on descriptions need a `--captioner`. To use it
later without a model, answer the questions of a run elsewhere (`batch export`, `batch import`).

## Limits

Simple synthetic scenes of one composition: {composition} on a table. Images at level 3 are tidy images of something else
rather than failed ones. Sign words and counts weigh no more than other elements.

No third-party images or textures; the sign text is drawn with the font that Pillow ships.
"""

_CROWD = """\
Each scene is a crowd (`--hard`): 40 to 80 small things on twelve trays, two to twelve alike on each, some of them partly behind
others (at least 30 % of every one is to be seen, and at least eight stand partly behind others), four small cards, and groups
that differ in their colour only. A missing group has a near-duplicate in its place; a swap mirrors two neighbours.

"""


_LADDER = """\
# Known-answer ladder, difficulty {ladder}

{prompts} prompts, {images} images, {pairs} pairs for testing text-to-image judges, made by

    python cli.py known-answer make --ladder {ladder} --template {template} --scenes {scenes} --seed {seed} --levels {levels} --out DIR

Each image shows 25, 40 or 60 groups of small things, drawn by Pillow from a seed; of each group the prompt says one thing that may be wrong.
Level 0 is as the prompt says; level 1 has one error, level 2 four, level 3 twelve, each in a group of its own. An error is one thing, letter
or exchange. It is checked by pixels: at least ten of them differ by 60 of 255 and none lies at the edge of the place of its group.

{tables}
Of rows of things the prompt says: each, none, every second one, only the n-th, one more than. `errors` of an image has `kind`,
`element`, `asked`, `shown` and `box`: the pixels that differ (left, top, right, bottom). `alignment` is the share of the elements of the
graph that are shown; those of the whole picture (materials, light, style, camera) are never wrong. The other fields are those of the
bundled example. `prompt_id` begins with the template: {prefixes}.

    python cli.py judge --suite known-answer --data DIR --captioner PROVIDER/MODEL --judge PROVIDER/MODEL

Drawn scenes with plain shapes; nobody looked. Fonts: DejaVu, as Matplotlib ships them.
"""


def _table(template: Template) -> str:
    lines = [f"| {kind} | {template.about_errors[kind]} |" for kind in template.kinds]
    return "\n".join([template.about, "", "| `kind` of an error | what is wrong |", "| --- | --- |", *lines, ""])


def readme(options: Options, prompts: int, images: int, pairs: int) -> str:
    """Write how the folder was made, and what its fields mean."""
    templates = TEMPLATES.values() if options.template == MIXED else [TEMPLATES[options.template]]
    return (_LADDER if options.ladder else _TEXT).format(
        ladder=options.ladder,
        template=options.template,
        tables="\n".join(map(_table, templates)),
        prefixes=", ".join(f"`{template.prefix}{options.ladder}` of {template.name}" for template in templates),
        prompts=prompts,
        images=images,
        pairs=pairs,
        scenes=prompts,
        seed=options.seed,
        size=options.size,
        samples=options.samples,
        levels=",".join(map(str, options.levels)),
        hard=" --hard" if options.hard else "",
        crowd=_CROWD if options.hard else "",
        composition="three rows of trays" if options.hard else "two rows",
    )

"""Known-answer scenes: composed at random from a seed, rendered at levels of adherence, annotated by construction.

    objects      what can stand on the table, colours     errors       planted errors, levels of adherence
    scene        Thing, Scene, Graph: asked and shown     annotation   graph marks, questions, lines of the files
    shapes       the parts of a thing                     prompt_text  the long prompt
    layout       places, camera, relations                textures, meshes, render   images, ids (Mitsuba 3)
    composition, crowd   draw a scene                     visibility   can everything that is annotated be seen
    generate, edits      the folder, resumable            ladder       the templates by name, and the README of a folder

Scenes at the edge of sight, without a renderer: `template` composes, words and spoils groups of things; `cabinet`, `stand` and
`shelves` are its templates; `bays`, `sprites` and `finish` draw. Vocabularies, texts, layouts and strokes are in YAML files.

Only `render` and `visibility.look` need a renderer.
"""

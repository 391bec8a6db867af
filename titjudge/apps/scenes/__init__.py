"""Known-answer scenes: composed at random from a seed, rendered at levels of adherence, annotated by construction.

    scene        what is asked and shown: Thing, Scene, Graph, kinds of objects, colours
    composition, crowd   draw a scene and write its prompt     errors       every way to be wrong, levels of adherence
    layout       the parts of a thing, places, relations       annotation   graph marks, questions, lines of the files
    textures, render     images, meshes, ids (Mitsuba 3)       visibility   can everything that is annotated be seen
    generate, edits      the folder, resumable

Scenes at the edge of sight, without a renderer: `template` composes, words and spoils groups of things; `cabinet` and `ladder` have
its templates; `bays` and `sprites` draw. Vocabularies, texts, layouts and strokes are in YAML files.

Only `render` and `visibility.look` need a renderer.
"""

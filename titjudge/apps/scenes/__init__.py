"""Known-answer scenes: composed at random from a seed, rendered at levels of adherence, annotated by construction.

    palette      colours, surfaces, words of signs        errors       planted errors, levels of adherence
    scene        Thing, Scene, Graph: asked and shown     annotation   graph marks, questions, lines of the files
    objects      what can stand on the table              prompt_text  the long prompt
    shapes       the parts of a thing                     textures, meshes, render, denoise   images, ids (Mitsuba 3)
    layout       places, camera, relations                visibility   can everything that is annotated be seen
    composition, crowd   draw a scene                     generate, readme   the folder, resumable
    ladder, cabinet      compose and draw scenes at the edge of sight, without a renderer

Only `render` and `visibility.look` need a renderer.
"""

"""Known-answer scenes: composed from a seeded grammar, rendered at levels of adherence, annotated by construction.

    palette   colours, surfaces, words of signs          edits     planted errors and levels of adherence
    model     Thing, Scene, Graph: what is asked, shown   annotate  what is true of a scene: graph, questions, marks
    kinds     what can stand on the table                 words     the long prompt
    shapes    the parts a thing is built of               textures, render   pictures and object ids (Mitsuba 3)
    layout    places, camera, clear relations             check     is everything seen that the annotation says is there
    grammar   draws a scene                               make      the folder, resumable

All but `render` is pure: no renderer is needed to compose, write and annotate a scene.
"""

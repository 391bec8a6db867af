"""Reports about what people say of images: several raters, votes, ranks."""

from kinds import Command, Rated

VOTES = "".join(f"p{k},x{k},y{k},{who},{vote}\n" for k in range(4) for who, vote in (("ann", "a"), ("bob", "b"), ("eve", "a")))

REPORTS = [
    Rated(
        "linzhiqiu/t2v_metrics#28", "three people rate each image: how do they become one",
        "image,rater,score\na.png,1,4\nb.png,1,1\na.png,2,2\nb.png,2,3\na.png,3,3\nb.png,3,5\n",
        means={"a.png": 3.0, "b.png": 3.0}, raters=3,
    ),
    Command(
        "TIGER-AI-Lab/VIEScore#4", "the votes of several people become one: by which rule, of how many",
        {"v.csv": f"prompt_id,image_a,image_b,annotator,preference\n{VOTES}"},
        ["compare", "votes", "v.csv"], prints=["consensus                   4", "annotators                  3"],
    ),
    Command(
        "found beside linzhiqiu/t2v_metrics#28", "an image with two recorded descriptions is judged by the last",
        {"d/a.png": 1, "d/a.txt": "a cat", "d/descriptions.jsonl": [{"image": "a.png", "description": text} for text in "xy"]},
        ["judge", "d", "--captioner", "recorded"], code=2, prints=["descriptions.jsonl:2", "line 1"],
    ),
    Command(
        "found beside linzhiqiu/t2v_metrics#28", "a generator that is listed twice counts twice",
        {"r.csv": "model,people,tit\nA,1,1\nB,2,3\nA,3,2\n"},
        ["compare", "ranks", "--csv", "r.csv", "--reference", "people"], code=2, prints=["r.csv:4", "'A'", "(2)"],
    ),
]

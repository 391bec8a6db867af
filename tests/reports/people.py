"""Reports about what people say of images: several raters, votes, ranks."""

from kinds import Command, Rated

VOTES = "".join(f"p{k},x{k},y{k},{who},{vote}\n" for k in range(4) for who, vote in (("ann", "a"), ("bob", "b"), ("eve", "a")))


REPORTS = [
    Rated(
        "DeepPavlovAdmin/convai#7", "0 stands for 'not rated', and is averaged with 1 to 5",
        "image,rater,score\na.png,1,5\na.png,2,0\nb.png,1,3\nb.png,2,4\n",
        means={"a.png": 2.5, "b.png": 3.5}, raters=2, prints=["1 of 4 are 0", "'not rated'"],
    ),
    Rated(
        "dannymcc/may#244", "a number with a decimal comma and a mark of thousands is read as another number",
        "image;score\na.png;1.234,5\nb.png;1.234,5\n", prints=["score", "'1.234,5'"],
    ),
    Rated(
        "google-research/mt-metrics-eval#6", "None stands for a missing score",
        "image,rater1,rater2\na.png,4,None\nb.png,None,2\n", means={"a.png": 4, "b.png": 2},
    ),
    Command(
        "Ame-X/Integrated-Industry-Maker#99", "the number that stands for a failed run looks like a real score",
        {"s.csv": "prompt_id,generator,score\n" + "".join(f"p{n},{g},{-1 if g == 'b' and n % 3 else n}\n" for n in range(9) for g in "ab")},
        ["compare", "generators", "s.csv"], code=2, prints=["6 of 18", "-1", "empty"],
    ),
    Command(
        "bojieli/ai-agent-book#224", "'tie (bothbad)' is no tie, and the other side gets the point",
        {"v.csv": "prompt_id,image_a,image_b,annotator,preference\n" + "".join(
            f"p{k},x{k},y{k},{who},{vote}\n" for k in range(4) for who, vote in (("ann", "tie (bothbad)"), ("bob", "tie"))
        )},
        ["label", "convert", "v.csv"], prints=["consensus                 4"], silent=["needs experts             4"],
    ),
    Command(
        "OpenEuroLLM/JudgeArena#4", "sides are swapped for half of the votes, and are not swapped back",
        {"v.csv": "prompt_id,image_a,image_b,annotator,preference\n" + "".join(
            f"p{k},x{k},y{k},ann,a\np{k},y{k},x{k},bob,b\np{k},y{k},x{k},eve,right\n" for k in range(4)
        )},
        ["label", "convert", "v.csv"], prints=["Krippendorff's alpha      1"],
    ),
    Command(
        "future-agi/future-agi#2569", "a short formula for rank correlations is wrong where ranks are tied",
        {"r.csv": "model,people,tit\nA,1,5\nB,1,4\nC,1,3\nD,1,2\nE,2,1\n"},
        ["judges", "ranks", "r.csv", "people"], prints=["-0.7071"],
    ),
    Rated(
        "linzhiqiu/t2v_metrics#28", "three people rate each image: how do they become one",
        "image,rater,score\na.png,1,4\nb.png,1,1\na.png,2,2\nb.png,2,3\na.png,3,3\nb.png,3,5\n",
        means={"a.png": 3.0, "b.png": 3.0}, raters=3,
    ),
    Command(
        "TIGER-AI-Lab/VIEScore#4", "the votes of several people become one: by which rule, of how many",
        {"v.csv": f"prompt_id,image_a,image_b,annotator,preference\n{VOTES}"},
        ["label", "convert", "v.csv"], prints=["consensus                   4", "annotators                  3"],
    ),
    Command(
        "found beside linzhiqiu/t2v_metrics#28", "an image with two recorded descriptions is judged by the last",
        {"d/a.png": 1, "d/a.txt": "a cat", "d/descriptions.jsonl": [{"image": "a.png", "description": text} for text in "xy"]},
        ["judge", "d", "--captioner", "recorded"], code=2, prints=["descriptions.jsonl:2", "line 1"],
    ),
    Command(
        "found beside linzhiqiu/t2v_metrics#28", "a generator that is listed twice counts twice",
        {"r.csv": "model,people,tit\nA,1,1\nB,2,3\nA,3,2\n"},
        ["judges", "ranks", "r.csv", "people"], code=2, prints=["r.csv:4", "'A'", "(2)"],
    ),
]

"""Reports about whole runs: equal scores, shards, grids, images that occur again."""

import io

from kinds import Command
from PIL import Image


def grid(width: int, height: int) -> bytes:
    """An image whose quarters have colours of their own."""
    out, image = io.BytesIO(), Image.new("RGB", (2, 2))
    image.putdata([(250, 0, 0), (0, 250, 0), (0, 0, 250), (250, 250, 0)])
    image.resize((width, height), Image.Resampling.NEAREST).save(out, "PNG")
    return out.getvalue()


SCORE = '{"score": 70, "reason": "r"}'
JUDGE = ("judge", "--provider", "openai/gpt-4o", "--metric", "lmm-score", "--no-report")

REPORTS = [
    *(
        Command(
            source, "all images get the same score, and a winner is looked for",
            {f"{g}/{n}.png": 20 * n + at for at, g in enumerate("ab") for n in range(6)} | {"prompts.txt": "u\nv\nw\nx\ny\nz\n"},
            [*JUDGE, "."], answer=lambda seen, score=score: score,
            prints=["12 images", "same score"],
        )
        for source, score in (
            ("Q-Future/Compare2Score#7", SCORE), ("IntMeGroup/EditHF#3", '{"score": 0, "reason": "black"}'),
        )
    ),
    Command(
        "yifan123/flow_grpo#17", "one shard of two is merged, and the result looks whole",
        {f"data/{n}.{kind}": n if kind == "png" else f"a cup {n}" for n in range(4) for kind in ("png", "txt")},
        ["merge", "one", "--out", "all", "--no-report"], code=1, prints=["2/2"],
        before=[[*JUDGE, "data", "--shard", "1/2", "--out", "one"]],
    ),
    Command(
        "FoundationVision/Infinity#103", "a grid of four images is judged as one",
        {"0.png": grid(129, 131), "0.txt": "a cup"},
        [*JUDGE, ".", "--grid", "2x2"],
        asked=4, answer=lambda seen: SCORE, prints=["x 4 images"],
    ),
    Command(
        "TencentQQGYLab/ELLA#60", "a row of four images is cut as two rows of two, or one of one pixel is cut",
        {"0.png": grid(256, 64), "0.txt": "a cup", "1.png": grid(1, 1), "1.txt": "a hat"},
        [*JUDGE, ".", "--grid", "1x4"],
        code=4, prints=["1.png", "1 x 1"],
    ),
    Command(
        "yuvalkirstain/PickScore#29", "images occur in several rows: they are judged once, and every row is a pair",
        {"0.png": 1, "1.png": 2, "2.png": 3, "rows.jsonl": [
            {"jpg_0": "0.png", "jpg_1": f"{n}.png", "caption": "a cup", "label_0": label, "has_label": label is not None}
            for n, label in ((1, 1), (2, 0.5), (1, None))
        ]},
        [*JUDGE, "rows.jsonl"], asked=3,
        answer=lambda seen: SCORE,
    ),
]

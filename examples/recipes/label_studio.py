"""Let people vote in Label Studio: write pairs of images as tasks, and read its JSON export as votes for `judge --pairs`.
python label_studio.py tasks my_images tasks.json "/data/local-files/?d="    # also writes the interface, tasks.xml
python label_studio.py votes exported.json votes.csv    # the last vote of a person on a pair counts"""

import csv
import json
import random
import sys
from pathlib import Path
from urllib.parse import quote

from titjudge.apps.label.dataset import load_dataset

KEYS = ("prompt", "prompt_id", "image_a", "image_b", "left", "right")
INTERFACE = """<View><Header value="Which image follows the prompt better?"/><Text name="prompt" value="$prompt"/>
<Image name="left" value="$left"/><Image name="right" value="$right"/><Choices name="vote" toName="prompt" required="true">
<Choice value="left"/><Choice value="tie"/><Choice value="right"/><Choice value="both_bad"/></Choices></View>"""


def write_tasks(data: str, out: str, address: str = "") -> None:
    read = load_dataset(Path(data))
    assert not any(read.sources.values()), "these are edits, and a task has no place for the source image"
    pairs = [(p, *random.sample((a, b), 2)) for p, ids in read.images.items() for a in ids for b in ids if a < b]
    rows = [(read.prompts[p], p, a, b, address + quote(a), address + quote(b)) for p, a, b in pairs]
    Path(out).write_text(json.dumps([{"data": dict(zip(KEYS, row, strict=True))} for row in rows]))
    Path(out).with_suffix(".xml").write_text(INTERFACE)


def read_votes(export: str, out: str) -> None:
    votes = {(*KEYS[1:4], "annotator"): "preference"}
    every = [(vote, task["data"]) for task in json.loads(Path(export).read_bytes()) for vote in task["annotations"]]
    for vote, data in sorted(every, key=lambda each: each[0].get("updated_at") or ""):
        for part in [] if vote.get("was_cancelled") else vote["result"]:
            votes[(*(data[key] for key in KEYS[1:4]), str(vote["completed_by"]))] = part["value"]["choices"][0]
    with open(out, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows((*key, choice) for key, choice in votes.items())


if __name__ == "__main__":
    {"tasks": write_tasks, "votes": read_votes}[sys.argv[1]](*sys.argv[2:])

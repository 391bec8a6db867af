"""Reports about tables, names in them, and what else lies among the images."""

import json
import unicodedata
from collections.abc import Sequence
from typing import Any

from kinds import Command, Files

NFD = unicodedata.normalize("NFD", "café")
STRAY = b"\0\5\x16\7"

TWO = {"0.png": 1, "1.png": 2}
HANGUL = unicodedata.normalize("NFD", "고양이")
TASKS = ("single_object", "two_object", "counting", "colors", "position", "color_attr")


def geneval(tasks: Sequence[str]) -> list[dict[str, Any]]:
    """Results of GenEval's script: two prompts a task, one image of which is right."""
    return [
        {"filename": f"{n:05}/samples/0000.png", "tag": task, "prompt": f"{task} {n}", "correct": n % 2 > 0,
         "metadata": json.dumps({"tag": task, "prompt": f"{task} {n}"})}
        for task in tasks for n in range(2)
    ]


REPORTS = [
    Files(
        "sisinflab/Ducho#2", "ids in a table lose the zeros before them",
        {"007.png": 1, "010.png": 2, "prompts.csv": "id,prompt\n7,a cup\n10,a hat\n"},
        reads={"007.png": "a cup", "010.png": "a hat"},
    ),
    Files(
        "archimatetool/archi#141", "some ids could be numbers with an exponent",
        {"4e872096.png": 1, "73928e03.png": 2, "prompts.csv": "id,prompt\n73928e03,a hat\n4e872096,a cup\n"},
        reads={"4e872096.png": "a cup", "73928e03.png": "a hat"},
    ),
    Files(
        "desihub/prospect#88", "a spreadsheet has rounded long ids, which are now equal",
        {f"390898374997528{n}.png": n for n in (54, 64)} | {"prompts.csv": "id,prompt\n3.91E+16,a cup\n3.91E+16,a hat\n"},
        refused=["do not match the prompts"],
    ),
    Files(
        "pandas-dev/pandas#48704", "whole numbers become 1.0 and 2.0 beside an empty cell, and match nothing",
        {"1.png": 1, "2.png": 2, "prompts.csv": "id,prompt\n1.0,a cup\n2.0,a hat\n"},
        reads={"1.png": "a cup", "2.png": "a hat"},
    ),
    Files(
        "cocodataset/cocoapi#332", "things that are numbered from 0: the first counts as none",
        {**TWO, "images.jsonl": [{"image": f"{n}.png", "prompt": "a cup", "model": n} for n in (0, 1)]},
        reads={"0.png": "a cup", "1.png": "a cup"}, generators={"0", "1"}, place="images.jsonl",
    ),
    Files(
        "huggingface/datasets#8241", "JSON lines that begin with a byte order mark are read otherwise",
        {**TWO, "images.jsonl": b'\xef\xbb\xbf{"image": "0.png", "prompt": "a cup"}\r\n{"image": "1.png", "prompt": "a hat"}\r\n'},
        reads={"0.png": "a cup", "1.png": "a hat"}, place="images.jsonl",
    ),
    Files(
        "rom1504/clip-retrieval#321", "of files with the same name in two folders one is kept",
        {"a/0.png": 1, "a/0.txt": "a cup", "b/0.png": 2, "b/0.txt": "a hat"},
        reads={"a/0.png": "a cup", "b/0.png": "a hat"},
    ),
    Files(
        "Haoming02/sd-forge-couple#90", "an empty line among the prompts counts as one, or does not",
        {"0.png": 1, "1.png": 2, "2.png": 3, "prompts.txt": "a cup\n\na hat\na fox\n"},
        refused=["empty lines"],
    ),
    Files(
        "ryouchinsa/Rectlabel-support#44", "files are sorted as text, so that 3390 stands between 339 and 340",
        {"339.png": 1, "340.png": 2, "3390.png": 3, "prompts.txt": "a cup\na hat\na fox\n"},
        refused=["do not match the prompts"],
    ),
    Files(
        "9001/copyparty#1555", "files from a Mac have decomposed names, and their texts are not found",
        {f"{NFD}.png": 1, "café.txt": "a cup"},
        reads={"café.png": "a cup"},
    ),
    Files(
        "OpenNeuroOrg/openneuro#2520", "the ._NAME twin of each copied file is taken for data",
        {"m/0.png": 1, "m/._0.png": STRAY, "prompts.txt": "a cup"},
        reads={"m/0.png": "a cup"},
    ),
    Files(
        "wyhlovecpp/GPT-Image-Edit#5", "one generator under two spellings is two generators",
        {"0.png": 1, "1.png": 2, "images.csv": "image,prompt,generator\n0.png,a cup,flux\n1.png,a hat,flux\u00a0\n"},
        reads={"0.png": "a cup", "1.png": "a hat"}, generators={"flux"}, place="images.csv",
    ),
    Files(
        "refuel-ai/autolabel#473", "a cell that begins with a lone quote swallows the rows below it",
        {"0.png": 1, "1.png": 2, "2.png": 3, "images.csv": 'image,prompt\n0.png,"a 5\n1.png,a hat\n2.png,a 12" nail\n'},
        refused=["line 2", "line 4"], place="images.csv",
    ),
    Files(
        "modelscope/evalscope#754", "a list with caption and text, the words to render: text is taken for the prompt",
        {"0.png": 1, "1.png": 2, "prompts.jsonl": [{"id": n, "caption": f"a sign {n}", "text": "OPEN"} for n in range(2)]},
        refused=["prompts.jsonl:id,caption", "prompts.jsonl:id,text"],
    ),
    Files(
        "found beside modelscope/evalscope#747", "nan, None and blanks in a CSV file are judged as prompts",
        {"0.png": 1, "1.png": 2, "2.png": 3, "images.csv": "image,prompt\n0.png,a cup\n1.png,nan\n2.png,None\n"},
        reads={"0.png": "a cup"}, refused=["the prompt is empty"], place="images.csv",
    ),
    Files(
        "9001/copyparty#1555", "a list of ids is composed, the names of the files are not",
        {f"m/{HANGUL}.png": 1, "m/x.png": 2, "prompts.csv": "id,prompt\n고양이,a cat\nx,a dog\n"},
        reads={"m/고양이.png": "a cat", "m/x.png": "a dog"}, generators={"m"},
    ),
    Files(
        "scverse/spatialdata-io#260", "the ._NAME twins of images and of their texts are taken for data",
        {"0.png": 1, "0.txt": "a cup", "._0.png": STRAY, "._0.txt": STRAY},
        reads={"0.png": "a cup"},
    ),
    Files(
        "pytorch/text#612", "the same in a table with tabs",
        {"0.png": 1, "1.png": 2, "2.png": 3, "images.tsv": 'image\tprompt\n0.png\t"a 5\n1.png\ta hat\n2.png\ta 12" nail\n'},
        refused=["line 2", "line 4"], place="images.tsv",
    ),
    Command(
        "pytorch/text#612", "votes vanish in the reason of the one above",
        {"v.csv": 'prompt_id,image_a,image_b,annotator,preference,reason\n'
                  'p,x,y,ann,a,"5\np,x,y,bob,b,worse\np,x,y,eve,a,a 12" one\n'},
        ["label", "convert", "v.csv"], code=2, prints=["v.csv", "line 2"],
    ),
    Files(
        "modelscope/evalscope#754", "a list has the prompt in two languages",
        {"0.png": 1, "prompts.jsonl": [{"id": 0, "prompt_zh": "杯子", "prompt_en": "a cup"}]},
        refused=["prompt_zh", "prompt_en"],
    ),
    Files(
        "allenai/reward-bench#273", "an id occurs twice with different content",
        {"0.png": 1, "1.png": 2, "prompts.jsonl": [{"id": "0", "prompt": "a cup"}, {"id": "0", "prompt": "a hat"}]},
        refused=["prompts.jsonl", "2"],
    ),
    Command(
        "allenai/reward-bench#273", "a score table has a prompt and a generator twice",
        {"s.csv": "prompt_id,generator,score\np,a,1\np,b,2\nq,a,1\nq,a,3\nq,b,1\n"},
        ["compare", "generators", "s.csv"], code=2, prints=["s.csv", "row"],
    ),
    Command(
        "Yqcca/CMLoRA#2", "ties never happen because of rounding noise",
        {"s.csv": "prompt_id,generator,score\n" + "".join(f"p{n},a,{1 + n}\np{n},b,{1 + n + 1e-13!r}\n" for n in range(9))},
        ["compare", "generators", "s.csv", "--json", "results.json"],
        values={"pairs.0.same": 9, "pairs.0.wins": 0, "pairs.0.losses": 0, "pairs.0.p": 1.0},
    ),
    Command(
        "viiika/Meissonic#32", "a table over a part of the 553 prompts stands beside published ones",
        {"r.jsonl": geneval(TASKS)}, ["suites", "aggregate", "geneval", "r.jsonl"], prints=["553"],
    ),
    Command(
        "Tongyi-MAI/Z-Image#142", "the total is the mean of five tasks of the six",
        {"r.jsonl": geneval(TASKS[:5])}, ["suites", "aggregate", "geneval", "r.jsonl"], prints=["color_attr"],
    ),
    Command(
        "Tongyi-MAI/Z-Image#142", "the total is the mean over a task that is not GenEval's, too",
        {"r.jsonl": geneval((*TASKS, "negation"))}, ["suites", "aggregate", "geneval", "r.jsonl"], prints=["no task negation"],
    ),
    Files(
        "found beside easydiffusion/easydiffusion#99", "paths with a drive or server of Windows are only missing files",
        {"a.png": 1, "m.jsonl": [
            {"image": name, "prompt": "a cat"} for name in ("C:\\Users\\me\\a.png", "D:/x/a.png", "c:a.png", "\\\\srv\\share\\a.png")
        ]},
        refused=["Windows", "relative to the data folder"], place="m.jsonl",
    ),
    Files(
        "found beside modelscope/evalscope#747", "a word of a list of prompts is taken for an empty cell",
        {"0000.png": 1, "0001.png": 2, "0002.png": 3, "prompts.txt": "a cat\nnan\nNone\n"},
        reads={"0000.png": "a cat", "0001.png": "nan", "0002.png": "None"},
    ),
    Files(
        "found beside modelscope/evalscope#747", "the word beside its image is taken for an empty cell",
        {"0.png": 1, "0.txt": "null\n"}, reads={"0.png": "null"},
    ),
    Files(
        "found beside modelscope/evalscope#747", "an empty cell becomes the prompt nan",
        {"0.png": 1, "1.png": 2, "m.csv": "image,prompt\n0.png,nan\n1.png,a cat\n"},
        reads={"1.png": "a cat"}, refused=["empty (nan)"], place="m.csv",
    ),
    *(
        Files(
            "found beside modelscope/evalscope#747", f"columns have capitals ({kind})",
            {"0.png": 1, f"m.{kind}": content}, reads={"0.png": "a cat"}, generators=["sd"], place=f"m.{kind}",
        )
        for kind, content in (
            ("csv", "Image,Prompt,MODEL\n0.png,a cat,sd\n"), ("tsv", "IMAGE\tCaption\tModel\n0.png\ta cat\tsd\n"),
            ("jsonl", [{"Image": "0.png", "Prompt": "a cat", "Generator": "sd"}]),
        )
    ),
    Files(
        "found beside modelscope/evalscope#747", "of two columns that differ in capitals the usual one counts",
        {"0.png": 1, "m.csv": "image,Generator,prompt,generator\n0.png,upper,a cat,lower\n"},
        reads={"0.png": "a cat"}, generators=["lower"], place="m.csv",
    ),
    Files(
        "found beside modelscope/evalscope#747", "columns of a list of prompts have capitals",
        {"7.png": 1, "prompts.csv": "ID,Prompt\n7,a cat\n"}, reads={"7.png": "a cat"},
    ),
    Files(
        "found beside easydiffusion/easydiffusion#99", "images of formats that are not read are not found at all",
        {"0.heic": b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + bytes(99), "1.jxl": b"\xff\x0a" + bytes(99), "2.avif": 1, "prompts.txt": "a cat\na dog\na fox\n"},
        reads={"0.heic": "a cat", "1.jxl": "a dog", "2.avif": "a fox"},
    ),
]

"""Reports about tables, names in them, and what else lies among the images."""

import unicodedata

from kinds import Files

NFD = unicodedata.normalize("NFD", "café")
STRAY = b"\0\5\x16\7"

REPORTS = [
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
]

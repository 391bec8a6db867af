"""Tiny copies of benchmarks: their prompts, as their makers' files have them, and the flags that read them."""

import json
from pathlib import Path

from builders import write_lines


def qwen(data: Path) -> tuple[str, ...]:
    dims = "Quality / Detail / Noise"
    rows = [{"ID": n, "prompt_cn": text, "dims_en": dims} for n, text in ((1, "一只猫"), (2, "狗"))]
    (data / "bench_metadata.json").write_text(json.dumps(rows))
    return ("--suite", "qwen-image-bench")


def tiif(data: Path) -> tuple[str, ...]:
    for kind in ("text", "style"):
        told = {"type": kind, "short_description": f"a {kind}", "long_description": f"a long {kind}"}
        asked = {"type": kind, "yn_question_list": ["Is it?"], "yn_answer_list": ["yes"]}
        write_lines(data / "testmini_prompts" / f"{kind}_prompts.jsonl", told)
        write_lines(data / "testmini_eval_prompts" / f"{kind}_eval_prompts.jsonl", asked)
    return ("--suite", "tiif")


def corebench(data: Path) -> tuple[str, ...]:
    row = {"Prompt": "a cat", "Main Class": "C", "Sub Class": "M", "Checklist": [{"question": "Is it a cat?"}]}
    for name in ("C-MI", "R-LR"):
        (data / f"{name}.json").write_text(json.dumps({f"{name}-001": row}))
    return ("--suite", "t2i-corebench")


def wise(data: Path) -> tuple[str, ...]:
    for n, name in ((1, "cultural_common_sense"), (410, "spatio-temporal_reasoning"), (701, "natural_science")):
        row = {"prompt_id": n, "Prompt": f"prompt {n}", "Explanation": "x", "Subcategory": "y"}
        (data / f"{name}.json").write_text(json.dumps([row]))
    return ("--suite", "wise")


def dpg(data: Path) -> tuple[str, ...]:
    head = "item_id,text,keywords,proposition_id,dependency,category_broad,category_detailed,tuple,question_natural_language"
    rows = [f"{name},a dog,,1,0,entity,whole,entity - whole (dog),Is there a dog?" for name in ("midjourney3", "7")]
    (data / "dpg_bench.csv").write_text("\n".join([head, *rows]) + "\n")
    return ("--suite", "dpg-bench")


def unigenbench(data: Path) -> tuple[str, ...]:
    told = {
        "Primary Categories": "Style",
        "Subjects": "Animals",
        "Testpoints": ["Style"],
        "Testpoint Description": ["oil"],
    }
    cell = json.dumps(told).replace('"', '""')
    rows = [f'{n},a cat {n},"{cell}"' for n in (0, 1)]
    (data / "data").mkdir()
    (data / "data" / "test_prompts_en.csv").write_text("\n".join(["index,prompt_en,sub_dims_en", *rows]) + "\n")
    return ("--suite", "unigenbench")


def oneig(data: Path) -> tuple[str, ...]:
    table = ["category,id,prompt_en,type,prompt_length,class", "Anime_Stylization,000,a cat,NP,short,None"]
    (data / "scripts/alignment/Q_D").mkdir(parents=True)
    (data / "OneIG-Bench.csv").write_text("\n".join(table) + "\n")
    for name in ("anime", "human", "object"):
        asked = {"000": {"question": json.dumps({"1": "Is it a cat?"}), "dependency": json.dumps({"1": [0]})}}
        (data / f"scripts/alignment/Q_D/{name}.json").write_text(json.dumps(asked if name == "anime" else {}))
    (data / "scripts/text").mkdir()
    (data / "scripts/text/text_content.csv").write_text("id,text_content\n")
    (data / "scripts/reasoning").mkdir()
    (data / "scripts/reasoning/gt_answer.json").write_text("{}")
    return ("--suite", "oneig-bench")


def geneval2(data: Path) -> tuple[str, ...]:
    row = {"atom_count": 3, "vqa_list": [["Is there a dog?", "Yes"]], "skills": ["object"]}
    write_lines(data / "geneval2_data.jsonl", *({"prompt": f"a dog {n}", **row} for n in range(2)))
    return ("--suite", "geneval2")


def not_geneval(data: Path) -> tuple[str, ...]:
    wanted = [{"class": "dog", "count": 1}]
    rows = ({"tag": "single_object", "include": wanted, "prompt": f"a photo of a dog {n}"} for n in range(2))
    write_lines(data / "evaluation_metadata.jsonl", *rows)
    return ("--suite", "not-geneval")


def wegenbench(data: Path) -> tuple[str, ...]:
    asked = [{"question": "Is there a cat?", "type": "Object", "weight": 50}]
    rows = ({"id": n, "prompt": "a cat", "scene_name": "Ads", "style": "", "questions": asked} for n in (1, 2))
    write_lines(data / "wegenbench_general_en_questions.jsonl", *rows)
    return ("--suite", "wegenbench")


def longtext(data: Path) -> tuple[str, ...]:
    rows = (
        {"prompt_id": n, "prompt": "a sign", "text": ["STOP"], "category": "sign", "length": "short"} for n in (0, 1)
    )
    write_lines(data / "text_prompts.jsonl", *rows)
    return ("--suite", "longtext-bench")

"""From the prompts of a suite to images and back: `prompts export`, `generate`, `coverage`, `judge --dry-run`."""

import json
import os
import shlex
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from builders import read_lines, write_lines
from commands import cli, start
from PIL import Image
from suite_data import corebench, dpg, geneval2, longtext, not_geneval, oneig, qwen, tiif, unigenbench, wegenbench, wise

from tests.kit import Server

PROGRAM = """
import struct, sys, zlib
prompt, out, seed = sys.argv[1:4]
prompt = prompt.removeprefix("--prompt=")
if prompt.startswith("fail"):
    sys.exit(f"no {seed} today, sk-verysecret123")
if prompt.startswith("text"):
    open(out, "w").write(prompt)
    sys.exit()
if prompt.startswith("wait"):
    import time
    print("waiting", flush=True)
    time.sleep(60)
def part(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
pixel = bytes([0, int(seed) % 256, len(prompt) % 256, 7])
with open(out, "wb") as file:
    file.write(b"\\x89PNG\\r\\n\\x1a\\n" + part(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)))
    file.write(part(b"IDAT", zlib.compress(pixel)) + part(b"IEND", b""))
"""


@pytest.fixture
def command(tmp_path: Path) -> str:
    program = tmp_path / "paint.py"
    program.write_text(PROGRAM)
    return shlex.join([sys.executable, "-S", "-E", str(program), "--prompt={prompt}", "{out}", "{seed}"])


def folder(data: Path) -> tuple[str, ...]:
    write_lines(
        data / "prompts.jsonl",
        {"prompt_id": "7", "prompt": "a cat"},
        {"prompt_id": "a/b $(x)", "prompt": "-a dog; {out}"},
    )
    return ()


def tree(data: Path) -> tuple[str, ...]:
    (data / "p.csv").write_text("index,prompt_en\n1,a cat\n2,a dog\n")
    return "--images", "{generator}/{prompt_id}_{seed}.png", "--prompt-file", f"{data / 'p.csv'}:index,prompt_en"


def lpg(data: Path) -> tuple[str, ...]:
    folder(data)
    write_lines(data / "prompts.jsonl", {"prompt_id": "a_1", "prompt": "a cat"}, {"prompt_id": "b", "prompt": "a dog"})
    return ("--suite", "lpg-bench")


def starter(_data: Path) -> tuple[str, ...]:
    return ("--suite", "starter")


SUITES: dict[Callable[[Path], tuple[str, ...]], int] = {
    geneval2: 2,
    not_geneval: 2,
    longtext: 2,
    oneig: 1,
    dpg: 2,
    unigenbench: 2,
    wegenbench: 2,
    folder: 2,
    tree: 2,
    lpg: 2,
    starter: 25,
    qwen: 2,
    tiif: 4,
    corebench: 2,
    wise: 3,
}


@pytest.mark.parametrize("samples", [1, 2])
@pytest.mark.parametrize("suite", SUITES, ids=lambda suite: suite.__name__)
def test_what_is_exported_and_made_is_found(
    suite: Callable[[Path], tuple[str, ...]], samples: int, tmp_path: Path, command: str
) -> None:
    data, wanted = tmp_path / "data", SUITES[suite] * samples
    data.mkdir()
    flags = (*suite(data), "--data", str(data))
    said = cli(
        tmp_path, "prompts", "export", *flags, "--images-per-prompt", str(samples), "--seed", "5", "-o", "todo.jsonl"
    )
    assert f"{wanted} images of {SUITES[suite]} prompts" in said
    look = ("prompts", "coverage", *flags, "--images-per-prompt", str(samples), "one")
    missing = "1 image is missing" if wanted == 1 else f"{wanted:,} images are missing"
    assert missing in cli(tmp_path, *look, code=1)  # before anybody has made one
    for name in ("one", "two"):
        again = ("generate", "todo.jsonl", "--command", command, "--out", str(data), "--name", name)
        assert f"{wanted} images made, 0 were there" in cli(tmp_path, *again)
        assert f"0 images made, {wanted} were there" in cli(tmp_path, *again)
    assert "complete" in cli(tmp_path, "prompts", "coverage", *flags, "--images-per-prompt", str(samples))
    ask = ("--judge", "openai/gpt-4o-mini", "--captioner", "fake/c", "--json", "plan.json")
    cli(
        tmp_path,
        "judge",
        "--dry-run",
        *flags,
        *ask,
        *(("--metric", "tit") if suite in (folder, tree) else ()),
        OPENAI_API_KEY="none",
    )
    plan = json.loads((tmp_path / "plan.json").read_text())
    assert (plan["items"], plan["bad_items"]) == (2 * wanted, 0), plan
    made = read_lines(data / "metadata.jsonl")
    assert len({line["file_name"] for line in made}) == len(made) == 2 * wanted
    assert {line["seed"] for line in made} == {5 + k for k in range(samples)}
    next(iter(data.rglob("*.png"))).unlink()
    assert "1 image is missing" in cli(tmp_path, *look, "two", code=1)


def test_every_suite_is_among_them_or_has_its_own_images() -> None:
    from titjudge.core import registry

    tried = {"wise-verified", "prompts", "known-answer", "longt2ibench"}  # as wise; without images; with their own
    tried |= {"gedit-bench", "imgedit-bench", "imgedit-uge", "kris-bench", "rise-bench"}  # edits: test_edit_suites.py
    names = {folder: "folder", tree: "folder", lpg: "lpg-bench", qwen: "qwen-image-bench", corebench: "t2i-corebench",
             dpg: "dpg-bench", not_geneval: "not-geneval", longtext: "longtext-bench", oneig: "oneig-bench"}  # fmt: skip
    assert tried | {names.get(each, each.__name__) for each in SUITES} == set(registry.names("suites"))


def test_one_length_only(tmp_path: Path, command: str) -> None:
    flags = (*tiif(tmp_path), "--data", str(tmp_path))
    cli(tmp_path, "prompts", "export", *flags, "--length", "short", "-o", "todo.jsonl")
    assert {line["prompt"] for line in read_lines(tmp_path / "todo.jsonl")} == {"a text", "a style"}
    cli(tmp_path, "generate", "todo.jsonl", "--command", command, "--out", ".", "--name", "g")
    assert "complete" in cli(tmp_path, "prompts", "coverage", *flags, "--length", "short")
    said = cli(tmp_path, "prompts", "coverage", *flags, code=1)
    assert "g/style/long/0: no image" in said
    said = cli(tmp_path, "prompts", "coverage", *flags, "--length", "short", "--images-per-prompt", "3", code=1)
    assert "g/style/short/0: 2 images\n" in said
    (tmp_path / "plain").mkdir()
    folder(tmp_path / "plain")
    said = cli(tmp_path, "prompts", "export", "--data", "plain", "--length", "long", "-o", "x.jsonl", code=2)
    assert "the prompts of folder have no lengths" in said


def test_a_prompt_is_a_word_and_never_code(tmp_path: Path, command: str) -> None:
    nasty = '"; touch hacked; echo $(touch hacked2) `touch hacked3` {seed} {out} | > x & \n --help'
    write_lines(tmp_path / "todo.jsonl", {"prompt": nasty, "image": "{generator}/a.png"})
    cli(tmp_path, "generate", "todo.jsonl", "--command", command, "--out", "out", "--name", "g")
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("hacked")] == []
    (line,) = read_lines(tmp_path / "out" / "metadata.jsonl")
    assert (line["file_name"], line["prompt"]) == ("g/a.png", nasty)
    raw = (tmp_path / "out" / "g" / "a.png").read_bytes()
    assert len(raw) < 100


def test_bad_lines_are_named_and_the_rest_is_made(tmp_path: Path, command: str) -> None:
    (tmp_path / "todo.jsonl").write_text(
        '{"prompt": "a cat", "image": "a.png"}\n{"prompt": "a cat", "image": "../b.png"}\nno\n'
        '{"prompt": "", "image": "c.png"}\n{"prompt": "a", "image": "c.txt"}\n{"prompt": "a", "image": "a.png"}\n'
        '{"prompt": "fail", "image": "f.png", "seed": 3}\n{"prompt": "text", "image": "t.png"}\n'
        '{"prompt": "a \\u0000", "image": "n.png"}\n{"prompt": "a dog", "image": "d/d.png"}\n'
    )
    secret = command + " sk-verysecret456"
    said = cli(tmp_path, "generate", "todo.jsonl", "--command", secret, "--out", "out", code=1)
    for part in (
        "todo.jsonl:2: the image path leads outside the data folder",
        "todo.jsonl:3: ", "not JSON",
        "todo.jsonl:4: the prompt must be a text that is not empty",
        "todo.jsonl:5: 'c.txt' must end in one of",
        "todo.jsonl:6: duplicate image 'a.png' (first in row 1)",
        "row 7, f.png: the command failed with exit code 1: no 3 today, [key]",
        "row 8, t.png: ", "cannot be decoded or is not an image",
        "row 9, n.png: the prompt contains a null character",
        "2 images made, 0 were there, 8 missing",
    ):  # fmt: skip
        assert part in said, said
    assert sorted(path.name for path in (tmp_path / "out").rglob("*.*")) == ["a.png", "d.png", "metadata.jsonl"]
    assert "verysecret" not in (tmp_path / "out" / "metadata.jsonl").read_text() + said
    (tmp_path / "out" / "d" / "d.png").write_bytes(b"no image")
    assert "row 10, d/d.png: " in cli(tmp_path, "generate", "todo.jsonl", "--command", command, "--out", "out", code=1)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ((), "give one image model"),
        (("--command", "paint {prompt} {out}", "--model", "diffusers/x"), "give one image model"),
        (("--command", "true {out}"), "--command must contain {prompt}"),
        (("--command", "true {prompt}"), "--command must contain {out}"),
        (("--command", "'true {prompt} {out}"), "no closing quotation. Correct its quotes"),
        (("--command", "no-such-program {prompt} {out}"), "program 'no-such-program' not found"),
        (("--command", "true {prompt} {out} {sede}"), "--command: unknown field 'sede'. Did you mean 'seed'?"),
        (("--command", "true {prompt} {out}", "--name", "../x"), "the generator must be one file name"),
        (("--command", "true {prompt} {out}", "--option", "a=1"), "--option requires --model"),
        (("--model", "openai/gpt-image-1", "--option", "a=[1"), "--option a: line 1: a bracket is not closed"),
        (
            ("--model", "flux"),
            "--model must be PROVIDER/MODEL, such as openai/gpt-image-2 or diffusers/REPO, not 'flux'",
        ),
    ],
)
def test_what_cannot_be_meant_is_said(flags: tuple[str, ...], message: str, tmp_path: Path) -> None:
    write_lines(tmp_path / "todo.jsonl", {"prompt": "a cat", "image": "a.png"})
    assert message in cli(tmp_path, "generate", "todo.jsonl", *flags, "--out", "out", code=2)


def test_prompts_are_not_written_over(tmp_path: Path) -> None:
    folder(tmp_path)
    before = (tmp_path / "prompts.jsonl").read_bytes()
    said = cli(tmp_path, "prompts", "export", "--data", ".", "-o", "prompts.jsonl", code=2)
    assert "prompts.jsonl is an input of this command" in said
    tree = ("--images", "{prompt_id}.png", "--prompt-file", "prompts.jsonl:prompt_id,prompt")
    assert "is an input of this command" in cli(tmp_path, "prompts", "export", *tree, "-o", "prompts.jsonl", code=2)
    assert (tmp_path / "prompts.jsonl").read_bytes() == before


def test_a_file_without_lines_is_an_error(tmp_path: Path, command: str) -> None:
    (tmp_path / "todo.jsonl").touch()
    said = cli(tmp_path, "generate", "todo.jsonl", "--command", command, "--out", "out", code=2)
    assert "todo.jsonl: the list has no images to generate" in said


def test_a_list_of_other_images_is_not_touched(tmp_path: Path, command: str) -> None:
    write_lines(tmp_path / "todo.jsonl", {"prompt": "a cat", "image": "a.png"})
    foreign = tmp_path / "out" / "metadata.jsonl"
    foreign.parent.mkdir()
    foreign.write_text('{"file_name": "x.png", "text": "a"}\n{"file_name": "y.png", "text": "no end')
    before = foreign.read_bytes()
    said = cli(tmp_path, "generate", "todo.jsonl", "--command", command, "--out", "out", code=2)
    assert "`generate` did not write this list of images. Choose another --out" in said
    assert foreign.read_bytes() == before


def test_a_command_that_never_works_is_not_run_for_all(tmp_path: Path, command: str) -> None:
    write_lines(tmp_path / "todo.jsonl", *({"prompt": "fail", "image": f"{k}.png"} for k in range(30)))
    said = cli(tmp_path, "generate", "todo.jsonl", "--command", command, "--out", "out", code=1)
    assert "stopped: the first 10 images failed" in said
    assert "30 missing" in said


def test_shares_make_all_between_them(tmp_path: Path, command: str) -> None:
    write_lines(tmp_path / "todo.jsonl", *({"prompt": "a cat", "image": f"{k}.png"} for k in range(5)))
    for share in ("1/2", "2/2"):
        cli(tmp_path, "generate", "todo.jsonl", "--command", command, "--out", "out", "--shard", share)
    assert len(read_lines(tmp_path / "out" / "metadata.jsonl")) == 5


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_the_command_and_keeps_what_is_made(tmp_path: Path, command: str, number: int) -> None:
    write_lines(tmp_path / "todo.jsonl", {"prompt": "a cat", "image": "a.png"}, {"prompt": "wait", "image": "b.png"})
    with start(tmp_path, "generate", "todo.jsonl", "--command", f"{command}", "--out", "out") as process:
        made = tmp_path / "out" / "metadata.jsonl"
        while not (made.exists() and made.read_text()) and process.poll() is None:
            pass
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted; to continue, run the command again" in err
    assert os.listdir(tmp_path / "out") in (["a.png", "metadata.jsonl"], ["metadata.jsonl", "a.png"])


def test_images_that_come_with_the_data_are_not_exported(tmp_path: Path, example: Path) -> None:
    flags = ("--suite", "known-answer", "--data", str(example))
    assert "contain the images" in cli(tmp_path, "prompts", "export", *flags, "-o", "todo.jsonl", code=2)
    assert "complete" in cli(tmp_path, "prompts", "coverage", *flags, "--images-per-prompt", "1")


def test_a_prompt_that_would_be_an_option_of_the_program_is_refused(tmp_path: Path) -> None:
    lines = [
        {"prompt": prompt, "image": f"{number}.png"} for number, prompt in enumerate(("--file=/elsewhere", "a cup"))
    ]
    write_lines(tmp_path / "todo.jsonl", *lines)
    (tmp_path / "make.py").write_text(
        "import sys; from PIL import Image\nImage.new('RGB', (8, 8)).save(sys.argv[2].removeprefix('--out='))\n"
    )
    program = f"{sys.executable} {tmp_path}/make.py"
    said = cli(tmp_path, "generate", "todo.jsonl", "--command", f"{program} {{prompt}} {{out}}", "--out", "out", code=1)
    assert "the prompt begins with -, so the program would read an option. Write --prompt={prompt} in --command" in said
    assert [file.name for file in (tmp_path / "out").glob("*.png")] == ["1.png"]
    cli(tmp_path, "generate", "todo.jsonl", "--command", f"{program} --prompt={{prompt}} --out={{out}}", "--out", "out")
    assert sorted(file.name for file in (tmp_path / "out").glob("*.png")) == ["0.png", "1.png"]


def test_the_source_of_an_edit_goes_from_a_list_of_prompts_through_generate_to_the_judge(tmp_path: Path) -> None:
    data = tmp_path / "data"
    for name, colour in (("a", "red"), ("b", "blue")):
        (data / "src").mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8), colour).save(data / "src" / f"{name}.png")
    prompts = [{"prompt_id": name, "prompt": "keep it", "source": f"src/{name}.png"} for name in "ab"]
    write_lines(data / "prompts.jsonl", *prompts)
    cli(tmp_path, "prompts", "export", "--data", "data", "-o", "todo.jsonl")
    copy = "import shutil, sys; shutil.copy(sys.argv[2], sys.argv[3])"
    words = [sys.executable, "-S", "-E", "-c", copy, "--prompt={prompt}", "{source}", "{out}"]
    assert "2 images made" in cli(
        tmp_path, "generate", "todo.jsonl", "--out", "data/made", "--command", shlex.join(words)
    )
    for line in read_lines(data / "made" / "metadata.jsonl"):
        made, source = data / "made" / line["file_name"], Path(line["source_image"])
        assert made.read_bytes() == source.read_bytes()
        assert source.name == f"{line['prompt_id']}.png"
    judge = ("--metric", "viescore-edit", "--judge", "fake/x", "--dry-run")
    assert "2 items found, all of them usable" in cli(tmp_path, "judge", "--data", "data/made", *judge)


def test_sources_below_the_folder_are_listed_relative_to_it_so_that_it_can_be_moved(tmp_path: Path) -> None:
    (tmp_path / "out" / "src").mkdir(parents=True)
    Image.new("RGB", (8, 8), "red").save(tmp_path / "out" / "src" / "a.png")
    write_lines(tmp_path / "todo.jsonl", {"prompt": "keep it", "image": "a.png", "source_image": "out/src/a.png"})
    words = [sys.executable, "-S", "-E", "-c", "import shutil, sys; shutil.copy(*sys.argv[1:3])", "{source}", "{out}"]
    cli(tmp_path, "generate", "todo.jsonl", "--out", "out", "--command", f"{shlex.join(words)} {{prompt}}")
    (line,) = read_lines(tmp_path / "out" / "metadata.jsonl")
    assert line["source_image"] == "src/a.png"
    (tmp_path / "out").rename(tmp_path / "moved")
    assert "1 items found" in cli(
        tmp_path, "judge", "--data", "moved", "--metric", "preservation", "--no-report", "--dry-run"
    )


@pytest.mark.parametrize("dry_run", [False, True])
def test_a_model_that_makes_no_edits_is_refused_once_before_anything_is_paid(tmp_path: Path, dry_run: bool) -> None:
    Image.new("RGB", (8, 8)).save(tmp_path / "s.png")
    lines = [{"prompt": "blue", "image": f"{number}.png", "source_image": "s.png"} for number in range(30)]
    write_lines(tmp_path / "todo.jsonl", *lines)
    with Server(lambda seen: "no image") as server:
        said = cli(
            tmp_path, "generate", "todo.jsonl", "--model", "openai/dall-e-3", "--image-price", "dall-e-3=0.04", "--out", "out",
            *(["--dry-run"] if dry_run else []), code=2, OPENAI_API_KEY="sk-test", OPENAI_BASE_URL=server.openai,
        )  # fmt: skip
        assert server.count() == 0
    assert said.count("dall-e-3 cannot use source images") == len(said.strip().splitlines()) == 1


def test_a_dry_run_names_images_of_another_prompt(tmp_path: Path, command: str) -> None:
    made = ("generate", "todo.jsonl", "--command", command, "--out", "out")
    for prompt in ("a cat", "a dog"):
        write_lines(
            tmp_path / "todo.jsonl", {"prompt": prompt, "image": "a.png"}, {"prompt": "a cup", "image": "b.png"}
        )
        if prompt == "a cat":
            cli(tmp_path, *made)
    said = cli(tmp_path, *made, "--dry-run", code=1)
    assert "row 1, a.png: it is there, made of another prompt: delete the file" in said
    assert "b.png" not in said


def test_a_command_that_does_not_name_the_source_of_an_edit_makes_nothing(tmp_path: Path, command: str) -> None:
    Image.new("RGB", (8, 8)).save(tmp_path / "s.png")
    edit = {"prompt": "blue", "image": "{generator}/0.png"}
    write_lines(tmp_path / "todo.jsonl", {**edit, "source_image": "s.png"})
    told = cli(tmp_path, "generate", "todo.jsonl", "--out", "out", "--command", command, code=2)
    assert "cannot use source images" in told
    assert "a --command with {source}" in told
    two = f"{command} {{source_1}} {{source_2}}"
    told = cli(tmp_path, "generate", "todo.jsonl", "--out", "out", "--command", two, code=1)
    assert "--command must contain the sources of this line and no others: {source}" in told
    write_lines(tmp_path / "todo.jsonl", {**edit, "source_image": "gone.png"})
    assert "no such image file" in cli(tmp_path, "generate", "todo.jsonl", "--out", "out", "--command", command, code=1)

"""Compressed WebDataset shards (.tar.gz): images are read from any place of the unpacked archive, and nothing is unpacked to disk."""

import gzip
import io
import os
import tarfile
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import pytest
from builders import read_lines
from commands import cli
from loading import loaded
from PIL import Image

from titjudge.core import gzip_files
from titjudge.core.errors import DataError
from titjudge.core.types import InvalidItem
from titjudge.data import containers, images, tar_files
from titjudge.suites.folder import Folder


def png(number: int, side: int = 8) -> bytes:
    out = io.BytesIO()
    Image.frombytes("RGB", (side, side), Random(number).randbytes(3 * side * side)).save(out, "PNG")
    return out.getvalue()


def tar(count: int, side: int = 8) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for k in range(count):
            for name, content in ((f"{k:03}.png", png(k, side)), (f"{k:03}.txt", f"a cat {k}".encode())):
                info = tarfile.TarInfo(name)
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a file of some kilobytes have more checkpoints than are kept."""
    monkeypatch.setattr(gzip_files, "_STEP", 3_000)
    monkeypatch.setattr(gzip_files, "_MOST", 6)
    monkeypatch.setattr(gzip_files, "_BLOCK", 512)
    gzip_files._checkpoints.cache_clear()
    containers._after_fork()


@pytest.mark.parametrize("name", ["a.tar.gz", "a.tgz", "A.TAR.GZ", "a.tar"])
def test_a_packed_archive_has_the_rows_of_the_plain_one(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    file.write_bytes(gzip.compress(tar(40)))
    items, bad = loaded(file)
    assert [(item.id, item.prompt) for item in items] == [(f"{name}:{k + 1}", f"a cat {k}") for k in range(40)]
    assert bad == {}
    order = [*range(40), *Random(1).choices(range(40), k=60), *reversed(range(40))]
    for k in order:
        place = items[k].image
        assert place is not None
        assert images.read(place) == png(k)
    checkpoints = gzip_files._checkpoints(str(file), (file.stat().st_size, file.stat().st_mtime_ns))
    assert 3 <= len(checkpoints._points) <= 6
    assert os.listdir(tmp_path) == [name]


def test_a_file_put_together_from_several_is_one(tmp_path: Path) -> None:
    whole, file = tar(12), tmp_path / "a.tar.gz"
    file.write_bytes(gzip.compress(whole[:7_001]) + b"\0" * 700 + gzip.compress(b"") + gzip.compress(whole[7_001:]))
    items, _ = loaded(file)
    assert len(items) == 12
    for k in (11, 3, 0, 7):
        place = items[k].image
        assert place is not None
        assert images.read(place) == png(k)


def test_reading_forgets_nothing_of_a_file_that_is_written_anew(tmp_path: Path) -> None:
    file = tmp_path / "a.tar.gz"
    for count in (3, 9):
        file.write_bytes(gzip.compress(tar(count)))
        items, _ = loaded(file)
        place = items[-1].image
        assert place is not None
        assert images.read(place) == png(count - 1)


def test_threads_and_a_forked_process_read_at_the_same_time(tmp_path: Path) -> None:
    file = tmp_path / "a.tar.gz"
    file.write_bytes(gzip.compress(tar(60)))
    places = [item.image for item in loaded(file)[0]]

    def right(k: int) -> bool:
        place = places[k]
        return place is not None and images.read(place) == png(k)

    assert right(30)
    child = os.fork()
    if not child:
        os._exit(0 if all(map(right, reversed(range(60)))) else 1)
    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(right, Random(2).choices(range(60), k=300)))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gzip_files, "_UNPACKED", 2**20)
    info = tarfile.TarInfo("1.png")
    info.size = 2**23
    (tmp_path / "a.tar.gz").write_bytes(gzip.compress(info.tobuf() + bytes(2**23)))
    with pytest.raises(DataError, match=r"a\.tar\.gz: .*more than 200 times its size, as a decompression bomb does"):
        loaded(tmp_path / "a.tar.gz")


def test_a_header_that_says_it_has_a_terabyte_is_not_read(tmp_path: Path) -> None:
    info = tarfile.TarInfo("1.png")
    info.type, info.size = tarfile.XHDTYPE, 2**40
    (tmp_path / "a.tar.gz").write_bytes(gzip.compress(info.tobuf(tarfile.GNU_FORMAT) + bytes(2_000)))
    with pytest.raises(DataError, match=r"a\.tar\.gz: one piece has 1,048,576 MiB, more than 64"):
        loaded(tmp_path / "a.tar.gz")


def test_an_image_is_not_larger_than_others_may_be(tmp_path: Path) -> None:
    file = tmp_path / "a.tar.gz"
    file.write_bytes(gzip.compress(tar(1)))
    for size, message in (
        (50 * 2**20 + 1, "has 50 MiB, more than 50"),
        (10**6, "ends within the image"),
        (0, "is empty"),
    ):
        with pytest.raises(DataError, match=message):
            images.read(file / "512" / str(size))
    with pytest.raises(DataError, match="ends within the image"):
        images.read(file / str(10**17) / "10")
    with pytest.raises(DataError, match="no such row"):
        images.read(file / "512" / ("9" * 30))


@pytest.mark.parametrize("packed", [True, False])
def test_an_archive_with_a_damaged_header_does_not_end_there_in_silence(tmp_path: Path, packed: bool) -> None:
    file, whole = tmp_path / "a.tar", bytearray(tar(4))
    second = whole.index(b"002.png")
    whole[second + 3] = 255
    file.write_bytes(gzip.compress(whole) if packed else whole)
    with pytest.raises(DataError, match=rf"cannot be read as a tar archive: the header at byte {second:,} is damaged"):
        loaded(file)


def test_every_damaged_archive_gives_rows_or_one_error(tmp_path: Path) -> None:
    whole, random, file = gzip.compress(tar(3)), Random(4), tmp_path / "a.tar.gz"
    inner = tar(3)
    for number in range(300):
        damaged = bytearray(whole if number % 2 else inner)
        for _ in range(random.choice([1, 1, 3])):
            damaged[random.randrange(len(damaged))] = random.randrange(256)
        cut = damaged[: random.choice([len(damaged), random.randrange(len(damaged))])]
        file.write_bytes(bytes(cut) if number % 2 else gzip.compress(cut))
        assert all("\n" not in said for said in read_all(file))


def read_all(file: Path) -> list[str]:
    """Read the rows and images of an archive; return what is wrong with it."""
    said = []
    try:
        for item in Folder().load(file):
            if isinstance(item, InvalidItem):
                said.append(item.reason)
            elif item.image is not None:
                images.check_header(item.image)
    except DataError as error:
        said.append(str(error))
    return said


def test_a_torn_file_says_so(tmp_path: Path) -> None:
    whole = gzip.compress(tar(3))
    (tmp_path / "a.tar.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=r"a\.tar\.gz: cannot be unpacked: it ends too early"):
        list(tar_files.rows(tmp_path / "a.tar.gz"))
    wrong = whole[:-8] + zlib.crc32(b"").to_bytes(4, "little") + whole[-4:]
    (tmp_path / "a.tar.gz").write_bytes(wrong)
    with pytest.raises(DataError, match="cannot be unpacked"):
        gzip_files.GzipReader(tmp_path / "a.tar.gz").read_at(0, 10**5)


def test_packed_text_is_no_file_with_images(tmp_path: Path) -> None:
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"image,prompt\n"))
    assert containers.holder(tmp_path / "a.csv.gz" / "512" / "10") is None


def test_a_folder_of_packed_archives_is_judged(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    for shard in range(2):
        (tmp_path / "data" / f"{shard:03}.tar.gz").write_bytes(gzip.compress(tar(2)))
    ask = ("judge", "--data", "data", "--captioner", "fake/c", "--metric", "tit")
    assert "'txt' is read as prompt" in cli(tmp_path, *ask, "--dry-run")
    cli(tmp_path, *ask, "--no-report", "--out", "run")
    lines = read_lines(tmp_path / "run" / "scores.jsonl")
    assert sorted(line["item"] for line in lines) == [f"00{shard}.tar.gz:{k}" for shard in (0, 1) for k in (1, 2)]
    assert all(line["value"] is not None for line in lines)

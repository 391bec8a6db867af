"""The live view: what it reads of a run, and what it gives to whom."""

import contextlib
import fcntl
import http.client
import json
import os
import shutil
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from report_runs import small_run
from viewing import viewing

from titjudge.core.errors import DataError, UserError
from titjudge.core.run_records import Manifest, Results
from titjudge.report.html import images_in
from titjudge.runs.folder.run_folder import RunFolder
from titjudge.web import PageAddress
from titjudge.web.view import run_state
from titjudge.web.view import runs as run_files
from titjudge.web.view.runs import Runs
from titjudge.web.view.server import serve_view

ROOT = Path(__file__).resolve().parents[3]


def make_run(folder: Path, status: str = "complete", scores: int = 3, **manifest: object) -> Path:
    folder.mkdir(parents=True)
    record = {
        "status": status,
        "metrics": {"tit": {}, "tit-llm": {}},
        "roles": {"judge": {"model": "gemini/x"}},
        "suite": {"name": "folder"},
        "progress": {"total": 4, "done": 2, "scored": 3, "failed": 1},
        "spent": 0.25,
        "started": 100.0,
        "updated": 160.0,
    }
    (folder / "manifest.json").write_text(json.dumps(record | manifest))
    (folder / "scores.jsonl").write_text("".join(line(number) for number in range(scores)))
    return folder


def line(number: int, value: float | None = 1.0, generator: str = "m", metric: str = "tit", prompt: str = "") -> str:
    record = {"item": f"i{number}", "metric": metric, "generator": generator, "value": value, "status": "ok"}
    return json.dumps(record | {"prompt_id": prompt}) + "\n"


def test_a_running_run_says_what_it_waits_for_and_how_many_scores_each_metric_has(tmp_path: Path) -> None:
    waits = ["rate limit of openai/m: 3 waiting, the next in 20 s"]
    progress = {"total": 4, "done": 2, "waits": waits}
    make_run(tmp_path / "a", "running", progress=progress, updated=time.time())
    make_run(tmp_path / "b", "incomplete: interrupted", progress=progress)
    with (tmp_path / "a" / "scores.jsonl").open("a") as file:
        file.write(line(0, None, metric="tit-llm") + line(1, metric="tit-llm"))
    running, ended = sorted(Runs(tmp_path).states(), key=lambda state: state.id)
    assert (running.waits, ended.waits) == (tuple(waits), ())
    assert running.scored_by == {"tit": 3, "tit-llm": 1}


def test_a_run_is_read_from_its_files(tmp_path: Path) -> None:
    make_run(tmp_path / "a", limits={"max_cost": 2})
    (state,) = Runs(tmp_path).states()
    assert (state.id, state.status, state.total, state.scored, state.failed) == ("a", "complete", 8, 3, 0)
    assert (state.spent, state.cap, state.metrics, state.models, state.suite) == (
        0.25,
        2.0,
        ("tit", "tit-llm"),
        ("gemini/x",),
        "folder",
    )
    assert not state.report


def test_scores_are_counted_as_they_come(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "a")
    runs = Runs(tmp_path)
    assert runs.states()[0].scored == 3
    with (folder / "scores.jsonl").open("a") as file:
        file.write(line(3) + line(4)[:10])
    assert runs.states()[0].scored == 4
    with (folder / "scores.jsonl").open("a") as file:
        file.write(line(4)[10:] + line(5, None) + "damaged\n")
    assert (runs.states()[0].scored, runs.states()[0].failed) == (5, 1)
    (folder / "scores.jsonl").write_text(line(0))
    assert runs.states()[0].scored == 1
    (folder / "scores.jsonl").unlink()
    assert runs.states()[0].scored == 0


def test_a_score_that_is_tried_again_counts_once(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "a", scores=0)
    (folder / "scores.jsonl").write_text(line(0, None) + line(1, 0.5) + line(0, 0.25))
    (state,) = Runs(tmp_path).states()
    assert (state.scored, state.failed, state.coverage) == (2, 0, 0.5)  # of 4 images


def test_missing_scores_come_with_what_to_do_about_them(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "a", scores=0, limits={"concurrency": 8})
    (folder / "scores.jsonl").write_text(line(0, None).replace('"ok"', '"failed", "cause": "crowded"'))
    assert "--concurrency, such as 4" in Runs(tmp_path).states()[0].advice[0]
    failures = [{"item": "i", "status": "truncated", "reason": "the answer reached its token limit"}]
    (folder / "results.json").write_text(json.dumps({"failures": failures}))
    assert "max_tokens" in Runs(tmp_path).states()[0].advice[0]


def test_the_results_of_a_run_that_has_ended_are_shown_best_generator_first(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "a", metrics={"tit": {}, "tit-llm": {"higher_is_better": True}})
    standings = [
        {"generator": name, "metrics": {"tit-llm": {"mean": mean}}} for name, mean in (("new", 70.0), ("old", 60.0))
    ]
    metrics = {"tit-llm": {"coverage": 0.75, "scored": 3, "images": 4}, "tit-llm [text]": {"coverage": 0.1}}
    alone = {"metric": "tit-llm", "ranking": [{"generator": "new", "mean": 70.0, "prompts": 4}]}
    verdict = {"generators": alone}
    results = {"leaderboard": standings, "metrics": metrics, "failures": [{"item": "i"}], "verdict": verdict}
    (folder / "results.json").write_text(json.dumps(results))
    runs = Runs(tmp_path)
    (state,) = runs.states()
    assert (state.metric, state.means) == ("tit-llm", (("new", 70.0), ("old", 60.0)))
    assert (state.coverage, state.scored, state.failed) == (0.75, 3, 1)
    assert state.verdict[0].startswith("The mean score is 70")
    assert (state.brief, state.leader) == (state.verdict[0], True)
    (folder / "results.json").write_text("{")
    assert runs.states()[0].means == (("m", 1.0),)  # by the scores so far


def test_means_so_far_are_of_the_same_prompts(tmp_path: Path) -> None:
    """B is better on each prompt that both have; A has only the easy ones so far."""
    folder = make_run(tmp_path / "a", "running", 0, progress={"total": 40, "done": 30}, metrics={"tit": {}})
    rows = [(k, 0.9 if k < 10 else 0.1, "B") for k in range(20)] + [(20 + k, 0.8, "A") for k in range(10)]
    (folder / "scores.jsonl").write_text("".join(line(k, v, g, prompt=f"p{k % 20}") for k, v, g in rows))
    (state,) = Runs(tmp_path).states()
    assert state.means == (("B", pytest.approx(0.5)), ("A", pytest.approx(0.4)))


@pytest.mark.parametrize(
    ("better", "brief"), [(True, "new beats old."), (False, "No clear winner between new and old.")]
)
def test_a_narrow_column_says_first_that_nobody_won_and_no_score_is_the_winners(
    better: bool, brief: str, tmp_path: Path
) -> None:
    folder = make_run(tmp_path / "a", metrics={"tit-llm": {"higher_is_better": True}})
    record = {
        "metric": "tit-llm",
        "first": "new",
        "second": "old",
        "better": better,
        "difference": 3.0,
        "prompts": 40,
        "metric_range": [0, 100],
    }
    (folder / "results.json").write_text(json.dumps({"verdict": {"generators": record}}))
    (state,) = Runs(tmp_path).states()
    assert state.brief.startswith(brief)
    assert state.leader == better
    assert "new" in state.verdict[0]


def test_a_running_run_shows_its_means_so_far_and_the_time_that_is_left(tmp_path: Path) -> None:
    now = time.time()
    progress = {"total": 30, "done": 20, "resumed": 10}
    roles = {"judge": {"errors": 2, "trouble": "HTTP 500"}}
    folder = make_run(
        tmp_path / "a", "running", 0, started=now - 50, updated=now, progress=progress, roles=roles, metrics={"tit": {}}
    )
    (folder / "scores.jsonl").write_text(line(0, 0.5, "a") + line(1, 1.0, "b") + line(2, 0.0, "b") + line(3, 0.75, "a"))
    (folder / "results.json").write_text(json.dumps({"metrics": {"tit": {"mean": 9.0}}}))  # of an earlier session
    (state,) = Runs(tmp_path).states()
    assert state.means == (("a", 0.625), ("b", 0.5))
    assert state.seconds_left == pytest.approx(50)
    make_run(
        tmp_path / "b", "running", 0, started=now - 50, updated=now, progress=progress | {"answers": 10, "expected": 30}
    )
    assert next(one for one in Runs(tmp_path).states() if one.id == "b").seconds_left == pytest.approx(100)
    assert (state.errors, state.trouble) == (2, "HTTP 500")


@pytest.mark.parametrize(
    ("status", "scores", "nothing"),
    [
        ("failed: no key", 0, True),
        ("failed: no key", 1, False),
        ("complete", 0, False),
        ("incomplete: budget", 0, True),
    ],
)
def test_a_run_that_ended_before_anything_was_judged_is_marked(
    tmp_path: Path, status: str, scores: int, nothing: bool
) -> None:
    make_run(tmp_path / "a", status, scores)
    assert Runs(tmp_path).states()[0].judged_nothing is nothing


def test_a_run_that_nobody_writes_has_stopped(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "a", "running", updated=time.time() - 60)
    assert Runs(tmp_path).states()[0].status == "stopped"
    lock = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    assert Runs(tmp_path).states()[0].status == "running"
    os.close(lock)
    assert Runs(tmp_path).states()[0].status == "stopped"
    make_run(tmp_path / "b", "running", updated=time.time())
    assert [state.status for state in Runs(tmp_path).states()] == ["running", "stopped"]


@pytest.mark.parametrize("content", ["{", "[]", "null", '{"progress": 3, "metrics": [], "roles": null, "spent": "x"}'])
def test_a_damaged_manifest_is_shown_as_such(tmp_path: Path, content: str) -> None:
    make_run(tmp_path / "good")
    bad = make_run(tmp_path / "bad")
    (bad / "manifest.json").write_text(content)
    states = {state.id: state for state in Runs(tmp_path).states()}
    assert states["good"].status == "complete"
    assert states["bad"].status in ("unreadable", "unknown")
    assert states["bad"].spent is None


def test_runs_below_and_the_folder_itself_are_found_but_no_links(tmp_path: Path) -> None:
    make_run(tmp_path / "runs" / "deep" / "er")
    make_run(tmp_path / "elsewhere")
    (tmp_path / "runs" / "link").symlink_to(tmp_path / "elsewhere")
    assert list(Runs(tmp_path / "runs").folders()) == ["deep/er"]
    assert list(Runs(tmp_path / "elsewhere").folders()) == ["."]


def test_a_report_that_leads_out_is_none(tmp_path: Path) -> None:
    (tmp_path / "secret.html").write_text("secret")
    folder = make_run(tmp_path / "runs" / "a")
    (folder / "report.html").symlink_to(tmp_path / "secret.html")
    runs = Runs(tmp_path / "runs")
    assert runs.report("a") is None
    assert not runs.states()[0].report
    (folder / "report.html").unlink()
    (folder / "report.html").write_text("fine")
    assert runs.report("a") == folder / "report.html"
    for name in ("../runs/a", "b", "", "..", "/etc", "a/../a"):
        assert runs.report(name) is None


def test_an_unchanged_run_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(20):
        make_run(tmp_path / str(number))
        (tmp_path / str(number) / "report.html").write_text("fine")
    calls: list[str] = []
    for owner, name in ((Manifest, "read"), (run_state, "open_regular"), (run_files.os, "scandir")):
        real = getattr(owner, name)
        monkeypatch.setattr(owner, name, lambda *a, name=name, real=real: (calls.append(name), real(*a))[1])
    runs = Runs(tmp_path)
    first = runs.states()
    assert (calls.count("read"), calls.count("open_regular"), calls.count("scandir")) == (20, 20, 21)
    calls.clear()
    assert runs.states() == first
    assert (calls.count("read"), calls.count("open_regular"), calls.count("scandir")) == (0, 0, 21)


def test_a_run_that_changes_while_it_is_viewed_is_read_again(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "a", "running", updated=time.time())
    runs = Runs(tmp_path)
    assert runs.states()[0].status == "running"
    make_run(tmp_path / "new", "complete")
    (tmp_path / "new" / "manifest.json").replace(folder / "manifest.json")
    (folder / "report.html").write_text("fine")
    (state,) = runs.states()
    assert (state.status, state.report) == ("complete", True)
    (folder / "manifest.json").write_text("{")
    assert runs.states()[0].status == "unreadable"
    shutil.rmtree(folder)
    assert runs.states() == []
    make_run(tmp_path / "a", scores=2)
    assert (runs.states()[0].status, runs.states()[0].scored) == ("complete", 2)


@pytest.mark.parametrize("name", ["scores.jsonl", ".lock", "report.html"])
def test_a_pipe_in_a_run_folder_holds_nothing_up(tmp_path: Path, name: str) -> None:
    folder = make_run(tmp_path / "a", "running", updated=1.0)
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)
    (state,) = Runs(tmp_path).states()
    assert (state.status, state.report, state.scored) == ("stopped", False, 0 if name == "scores.jsonl" else 3)


def test_a_manifest_that_becomes_a_pipe_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "manifest.json")
    with pytest.raises(DataError, match="a pipe or a device"):
        Manifest.read(tmp_path / "manifest.json", "")


def test_the_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such folder"):
        serve_view(tmp_path / "absent", open_run=RunFolder, at=PageAddress())


def get(link: str, path: str, **headers: str):
    connection = http.client.HTTPConnection("127.0.0.1", urlsplit(link).port, timeout=60)
    with contextlib.closing(connection):
        connection.request("GET", path, headers=headers)
        reply = connection.getresponse()
        return reply.status, dict(reply.getheaders()), reply.read().decode()


def ticket(link: str, *runs: str, **headers: str):
    connection = http.client.HTTPConnection("127.0.0.1", urlsplit(link).port, timeout=60)
    with contextlib.closing(connection):
        connection.request(
            "POST", "/api/ticket", json.dumps({"runs": runs}), {"Content-Type": "application/json", **headers}
        )
        reply = connection.getresponse()
        return reply.status, json.loads(reply.read())


def test_the_report_of_a_run_with_any_name_can_be_opened(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "runs" / "two\nlines \udcff # ? %41")
    (folder / "report.html").write_text("a report")
    with viewing(tmp_path / "runs") as link:
        key = {"Authorization": f"Bearer {urlsplit(link).fragment}"}
        (run,) = json.loads(get(link, "/api/runs", **key)[2])["runs"]
        once = ticket(link, run["href"], **key)[1]["ticket"]
        assert get(link, f"/report/{once}/")[2] == "a report"


def test_the_view_serves_runs_and_reports_to_who_has_the_link(tmp_path: Path) -> None:
    hostile = "<script>alert(1)</script> {{7*7}}\u202e"
    folder = make_run(tmp_path / "runs" / hostile.replace("/", "_"))
    policy = "<meta http-equiv='Content-Security-Policy' content=\"default-src 'none'\">"
    (folder / "report.html").write_text(policy)
    (tmp_path / "runs" / "note.html").write_text("not a report")
    with viewing(tmp_path / "runs") as link:
        key = {"Authorization": f"Bearer {urlsplit(link).fragment}"}
        assert get(link, "/api/runs")[0] == 401
        for path in ("/api/runs", "/api/run?run=a"):
            assert get(link, path, Authorization="Bearer wrong")[0] == 401
        status, headers, content = get(link, "/api/runs", **key)
        assert "set-cookie" not in headers, "a cookie would go to every port of this machine"
        (run,) = json.loads(content)["runs"]
        assert run["id"] == folder.name
        assert "<" not in run["href"]
        assert ticket(link, run["href"])[0] == 401
        once = ticket(link, run["href"], **key)[1]["ticket"]
        status, headers, content = get(link, f"/report/{once}/")
        assert (status, content) == (200, policy)
        assert get(link, f"/report/{once}/")[0] == 401, "a ticket is good once"
        assert headers["content-security-policy"].startswith(
            "sandbox allow-scripts allow-downloads; default-src 'none'"
        )
        assert headers["x-content-type-options"] == "nosniff"
        for name in ("../runs", "..%2fx", "%2e%2e", "", "/etc", f"{run['href']}/.."):
            assert ticket(link, name, **key) == (
                400,
                {"error": "there is no such run here. Reload the list of runs"},
            ), name
        assert get(link, "/api/runs", **key, Host="evil.example")[0] == 403
        for host in ("127.0.0.1#.evil", "evil\\@127.0.0.1", "x:@localhost", "127.0.0.1:80:80", ""):
            assert get(link, "/api/runs", **key, Host=host)[0] == 403, host
        _, headers, _ = get(link, "/")
        assert "script-src 'self'" in headers["content-security-policy"]
        for script in ("shared", "view", "run", "framed"):
            assert "innerHTML" not in get(link, f"/{script}.js")[2]


def make_report_folder(run: Path) -> Path:
    """Write what `report --format folder` writes, with a mark in each file."""
    folder = run / "report"
    (folder / "files" / "000").mkdir(parents=True)
    (folder / "index.html").write_text("the page")
    (folder / "files" / "0000.js").write_text("the details")
    (folder / "files" / "000" / "7.webp").write_text("the image")
    return folder


def test_a_report_that_is_a_folder_is_read_with_its_files_and_nothing_else(tmp_path: Path) -> None:
    run = make_run(tmp_path / "runs" / "a")
    folder = make_report_folder(run)
    make_report_folder(make_run(tmp_path / "runs" / "b"))
    (tmp_path / "secret.js").write_text("secret")
    (folder / "files" / "0001.js").symlink_to(tmp_path / "secret.js")
    (folder / "files" / "001").symlink_to(tmp_path)
    (tmp_path / "7.webp").write_text("secret")
    os.mkfifo(folder / "files" / "0002.js")
    (folder / "files" / "0003.js").mkdir()
    with viewing(tmp_path / "runs") as link:
        key = {"Authorization": f"Bearer {urlsplit(link).fragment}"}
        assert json.loads(get(link, "/api/runs", **key)[2])["runs"][0]["report"]
        once = ticket(link, "a", **key)[1]["ticket"]
        assert get(link, f"/report/{once}/files/0000.js")[0] == 401, "the page was not opened"
        status, headers, content = get(link, f"/report/{once}/")
        assert (status, content) == (200, "the page")
        assert headers["content-security-policy"].startswith(
            "sandbox allow-scripts allow-downloads; default-src 'none'"
        )
        assert headers["x-frame-options"] == "SAMEORIGIN"
        assert get(link, f"/report/{once}/")[0] == 401, "a page is opened once"
        for name, kind, text in (("0000.js", "text/javascript", "details"), ("000/7.webp", "image/webp", "image")):
            for _ in range(2):
                status, headers, content = get(link, f"/report/{once}/files/{name}")
                assert (status, content) == (200, f"the {text}")
                assert headers["content-type"].partition(";")[0] == kind
                assert headers["x-content-type-options"] == "nosniff"
        for name in ("../index.html", "..%2findex.html", "%2e%2e/index.html", "../../manifest.json", "0000.js/../../index.html",
                     "..%5cindex.html", "/etc/passwd", "%2fetc%2fpasswd", "", "0000.js%00", "0000.js%0a.js", "0001.js", "001/7.webp",
                     "0002.js", "0003.js", "0009.js", "000", "000/", "000/../0000.js", "./0000.js", "%D9%A0%D9%A0%D9%A0%D9%A0.js",
                     "../../../b/report/files/0000.js", "../../b/manifest.json"):  # fmt: skip
            status, _, content = get(link, f"/report/{once}/files/{name}")
            assert status == 404, name
            assert "secret" not in content
        for wrong in ("a-guess", "", once[:-1], f"{once}x", urlsplit(link).fragment):
            assert get(link, f"/report/{wrong}/files/0000.js")[0] in (401, 404), wrong
            assert "details" not in get(link, f"/report/{wrong}/files/0000.js", **key)[2]
        for host in ("evil.example", "127.0.0.1.evil.example", f"evil.example:{urlsplit(link).port}", ""):
            assert get(link, f"/report/{once}/files/0000.js", Host=host)[0] == 403, host
        assert get(link, f"/report/{once}/", Host="evil.example")[0] == 403


def test_the_ticket_of_a_report_that_is_one_file_opens_no_folder(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a")
    os.utime(make_report_folder(run) / "index.html", (1, 1))
    (run / "report.html").write_text("one file")
    with viewing(tmp_path) as link:
        key = {"Authorization": f"Bearer {urlsplit(link).fragment}"}
        once = ticket(link, "a", **key)[1]["ticket"]
        _, headers, content = get(link, f"/report/{once}/")
        assert content == "one file"
        assert "'self'" not in headers["content-security-policy"].replace("frame-ancestors 'self'", "")
        assert get(link, f"/report/{once}/files/0000.js")[0] == 401


def test_of_two_reports_the_one_that_was_written_last_is_opened_and_no_folder_with_links(tmp_path: Path) -> None:
    run = make_run(tmp_path / "runs" / "a")
    folder, file = make_report_folder(run), run / "report.html"
    runs = Runs(tmp_path / "runs")
    assert runs.report("a") == folder / "index.html"
    file.write_text("one file")
    for written, expected in ((1, folder / "index.html"), (4e9, file)):
        os.utime(file, (written, written))
        assert runs.report("a") == expected
    file.unlink()
    (folder / "index.html").rename(tmp_path / "index.html")
    (folder / "index.html").symlink_to(tmp_path / "index.html")
    assert runs.report("a") is None
    shutil.rmtree(folder)
    shutil.copytree(make_report_folder(tmp_path / "elsewhere"), tmp_path / "planted")
    folder.symlink_to(tmp_path / "planted")
    assert runs.report("a") is None
    assert not runs.states()[0].report


def test_the_report_of_a_running_run_is_made_again_and_shows_only_what_was_judged(tmp_path: Path) -> None:
    folder = small_run(tmp_path / "runs" / "a", status="running", updated=4e9, started=0.0).path
    (folder / "report.html").write_text("of an earlier session")
    lines = (folder / "scores.jsonl").read_text().splitlines(keepends=True)
    (folder / "scores.jsonl").write_text(lines[0])
    (folder / "results.json").unlink()
    first = json.loads((folder / "items.jsonl").read_text().splitlines()[0])
    planted = {key: value for key, value in first.items() if key not in ("stat", "seal")} | {"id": "planted"}
    planted["image"] = str(shutil.copy(first["image"], tmp_path))  # a path that the run has not judged
    with (folder / "items.jsonl").open("a") as file:
        file.write(json.dumps(planted) + "\n")
    with viewing(tmp_path / "runs") as link:
        key = {"Authorization": f"Bearer {urlsplit(link).fragment}"}

        def page() -> bytes:
            return get(link, f"/report/{ticket(link, 'a', **key)[1]['ticket']}/", **key)[2].encode()

        before = page()
        assert "the run has no record of the judged image" in images_in(before)[1]
        (folder / "scores.jsonl").write_text("".join(lines))
        assert b"So far:" in page() != before
        assert json.loads(get(link, "/api/run?run=a", **key)[2])["scored"] == 7
        assert get(link, "/api/run?run=..%2Fa", **key)[0] == 400


def test_the_metric_of_a_run_is_one_that_has_scores(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", scores=2)
    with (run / "scores.jsonl").open("a") as file:
        file.write(line(0, None, metric="tit-llm") + line(1, None, metric="tit-llm"))
    state = Runs(tmp_path).states()[0]
    assert (state.metric, state.means) == ("tit", (("m", 1.0),))
    results = {name: {"scored": scored, "images": 2} for name, scored in (("tit", 2), ("tit-llm", 0))}
    found = Results.model_validate({"metrics": results})
    assert run_state.with_results(run_state.read_state("run", run / "manifest.json"), found).metric == "tit"

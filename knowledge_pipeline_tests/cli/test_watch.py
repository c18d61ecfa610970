"""`knowledge watch` as a program, over real files."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from knowledge_pipeline.cli import watch as watching
from knowledge_pipeline.cli.session import Session
from knowledge_pipeline.cli.watch import WatchedSources
from knowledge_pipeline.store.progress import list_watchers
from knowledge_pipeline_tests.cli.conftest import Run, commit, git
from knowledge_pipeline_tests.cli.test_checkout_dates import commit_at
from knowledge_pipeline_tests.fakes.openai_server import Fault, OpenAIServer

ONE = "def one():\n    return 1\n"


class Watching:
    """The program, run until the test is over; `next` gives its lines as they come."""

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "knowledge_pipeline.cli", "watch", "--json", *arguments]
        self.program = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ)
        )
        self._lines: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.program.stdout is not None
        for line in self.program.stdout:
            self._lines.put(line)

    def next(self, timeout_s: float = 240) -> dict[str, Any]:
        try:
            return json.loads(self._lines.get(timeout=timeout_s))
        except queue.Empty:
            raise AssertionError(f"no line within {timeout_s} s") from None

    def is_silent(self, seconds: float) -> bool:
        time.sleep(seconds)
        return self._lines.empty()

    def began(self, *sources: str) -> None:
        """Wait for the refreshes at the beginning."""
        assert {self.next()["source"] for _ in sources} == set(sources)

    def stop(self) -> tuple[int, str]:
        self.program.send_signal(signal.SIGINT)
        assert self.program.stderr is not None
        told = self.program.stderr.read()
        code = self.program.wait(240)
        self._reader.join()
        assert self.program.stdout is not None
        self.program.stdout.close()
        self.program.stderr.close()
        return code, told


@pytest.fixture
def watch() -> Iterator[Callable[..., Watching]]:
    started: list[Watching] = []

    def start(*arguments: str) -> Watching:
        started.append(Watching(*arguments))
        return started[-1]

    yield start
    for each in started:
        if each.program.poll() is None:
            each.stop()


@pytest.mark.slow
def test_a_saved_file_is_searchable_and_ctrl_c_ends_it(
    watch: Callable[..., Watching], shop: Path, run: Run
) -> None:
    program = watch()
    program.began("shop-code", "shop-docs")
    (shop / "src" / "coupons.py").write_text("def redeem_coupon(code):\n    return code\n")
    done = program.next()
    assert (done["source"], done["added"], done["changed"], done["removed"]) == ("shop-code", 1, 0, 0)
    assert done["seconds"] > 0
    assert "coupons.py" in run("search", "redeem_coupon").out
    commit_at(shop, datetime(2020, 1, 1, tzinfo=UTC))
    program.began("shop-code", "shop-docs")
    assert "coupons.py" in run("search", "redeem_coupon", "--until", "2021").out
    (watcher,) = run("watch", "--status", "--json").json["watchers"]
    assert (watcher["pid"], watcher["problem"], watcher["behind"]) == (program.program.pid, None, [])
    code, told = program.stop()
    run("watch", "--status", code=1)  # none is left
    assert code == 130
    assert json.loads(told)["kind"] == "Interrupted"


@pytest.mark.slow
def test_only_what_concerns_a_source_refreshes_it(watch: Callable[..., Watching], shop: Path) -> None:
    (shop / ".gitignore").write_text("*.log.py\n")
    program = watch("--debounce", "0.2")
    program.began("shop-code", "shop-docs")
    (shop / "notes.txt").write_text("nothing that a source takes\n")
    (shop / "src" / "a.log.py").write_text(ONE)
    (shop / "src" / "swap").write_text("")
    (shop / "src" / "swap").unlink()
    git(shop, "add", ".")  # the folder .git changes
    assert program.is_silent(2)
    git(shop, "commit", "--quiet", "--message", "and with it the dates of files")
    program.began("shop-code", "shop-docs")
    temporary = shop / "src" / ".sessions.py.new"  # as many editors save
    temporary.write_text(ONE)
    temporary.rename(shop / "src" / "sessions.py")
    done = program.next()
    assert (done["source"], done["changed"]) == ("shop-code", 1)
    (shop / "docs").rename(shop.parent / "elsewhere")
    assert "lists no document at all" in program.next()["error"]
    (shop.parent / "elsewhere").rename(shop / "docs")
    program.began("shop-code", "shop-docs")  # what is in a folder that came, only a refresh knows
    assert program.is_silent(1)


@pytest.mark.slow
def test_a_folder_that_vanishes_is_told_once_and_may_return(
    watch: Callable[..., Watching], shop: Path
) -> None:
    program = watch("--source", "shop-code")
    program.began("shop-code")
    shop.rename(shop.parent / "away")
    gone = program.next()
    assert gone["kind"] == "SourceRefused" and "does not exist: correct connection.path" in gone["error"]
    assert program.is_silent(2)
    (shop.parent / "away" / "src" / "one.py").write_text(ONE)
    (shop.parent / "away").rename(shop)
    assert program.next()["added"] == 1
    (shop / "src" / "two.py").write_text(ONE)
    assert program.next()["added"] == 1


@pytest.mark.slow
def test_a_branch_switch_of_hundreds_of_files_ends_as_a_refresh_would(
    watch: Callable[..., Watching], shop: Path, run: Run
) -> None:
    git(shop, "checkout", "--quiet", "-b", "many")
    for number in range(600):
        folder = shop / "src" / f"p{number % 60}"
        folder.mkdir(exist_ok=True)
        (folder / f"m{number}.py").write_text(f"def f{number % 7}():\n    return {number % 7}\n")
    commit(shop, "many")
    git(shop, "checkout", "--quiet", "main")
    program = watch()
    program.began("shop-code", "shop-docs")
    git(shop, "checkout", "--quiet", "many")
    added = 0
    while added < 600:
        added += program.next(180)["added"]
    assert added == 600
    git(shop, "checkout", "--quiet", "main")
    removed = 0
    while removed < 600:
        removed += program.next(180)["removed"]
    assert program.stop()[0] == 130
    (code,) = run("refresh", "--source", "shop-code", "--json").json["sources"]
    assert (code["added"], code["changed"], code["removed"], code["seen"]) == (0, 0, 0, 1)


@pytest.mark.slow
def test_an_edit_of_the_file_counts_at_once(
    watch: Callable[..., Watching], indexed: Path, shop: Path
) -> None:
    config = indexed / "knowledge.yaml"
    program = watch()
    program.began("shop-code", "shop-docs")
    written = config.read_text()
    config.write_text(written + "nonsense: [\n")
    told = program.next()
    assert (told["source"], told["kind"]) == ("knowledge.yaml", "ConfigError")
    (shop / "src" / "one.py").write_text(ONE)
    assert program.next()["added"] == 1
    more = indexed.parent / "more"
    more.mkdir()
    (more / "two.py").write_text(ONE)
    added = "  - {id: more, type: code, connection: {type: local, path: ../more}}\n"
    config.write_text(written.rstrip("\n") + "\n" + added)
    assert {(line["source"], line.get("added")) for line in (program.next() for _ in range(3))} == {
        ("shop-code", 0),
        ("shop-docs", 0),
        ("more", 1),
    }
    (more / "three.py").write_text(ONE)
    assert program.next()["source"] == "more"


@pytest.mark.slow
def test_remote_repositories_are_asked_and_local_histories_watched(
    watch: Callable[..., Watching], indexed: Path, shop: Path
) -> None:
    config = indexed / "knowledge.yaml"
    remote = (
        "  - {id: remote, type: code, connection: {type: git, url: ../shop}, refresh: {trigger: daily}}\n"
    )
    config.write_text(config.read_text().rstrip("\n") + "\n" + remote)
    program = watch("--source", "remote", "--source", "shop-history", "--poll", "1")
    program.began("remote", "shop-history")
    assert program.is_silent(3)
    (shop / "src" / "one.py").write_text(ONE)
    assert program.is_silent(2)
    commit(shop, "One")
    found = [program.next() for _ in range(2)]
    assert {(line["source"], line["added"]) for line in found} == {("remote", 1), ("shop-history", 1)}


def test_what_may_pass_is_tried_again_and_told_once(
    indexed: Path, shop: Path, embedding_server: OpenAIServer, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setattr(watching, "RETRY_S", 0.0)
    watched = WatchedSources(indexed / "knowledge.yaml", ["shop-code"], everything=False)
    this = watching.Watcher(Session(), watched, poll_s=60)
    (shop / "src" / "one.py").write_text("def never_seen_before():\n    return 'retried'\n")
    config = indexed / "knowledge.yaml"
    config.write_text(config.read_text().replace("  dimensions:", "  max_tries: 1\n  dimensions:"))
    assert watched.reload_if_edited()
    for _ in range(2):
        embedding_server.fail_next(Fault(status=503))
        this.refresh_sources({"shop-code"})
        assert this.list_due_retries() == {"shop-code"}
    (report,) = list_watchers(watched.lake.folder)
    assert report.heartbeat.behind == ("shop-code",) and report.heartbeat.state == "refreshing"
    assert capsys.readouterr().err.count("error: shop-code: ") == 1
    this.refresh_sources(this.list_due_retries())
    assert this.list_due_retries() == set()
    assert "shop-code: 0 added" not in capsys.readouterr().out


def test_what_cannot_be_watched_is_wrong_usage(indexed: Path, run: Run) -> None:
    config = indexed / "knowledge.yaml"
    assert "there is no source 'nope'" in run("watch", "--source", "nope", code=3).err
    config.write_text(config.read_text().replace("type: code", "type: code\n    refresh: {trigger: daily}"))
    config.write_text(
        config.read_text().replace("type: markdown", "type: markdown\n    refresh: {trigger: daily}")
    )
    assert "no source is refreshed as it changes: set refresh.trigger" in run("watch", code=2).err

"""Refreshes that a server starts: which together, how often, and what becomes of each."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from knowledge_pipeline.errors import ConfigError, TooManyRequests
from knowledge_pipeline.serve import refreshes as module
from knowledge_pipeline.serve.refresh_history import list_last_events
from knowledge_pipeline.serve.refreshes import RefreshQueue
from knowledge_pipeline_tests.full_disk import limited_files

# Stands in for the command line: notes its number and with what it was called, waits until it may go
# on, and prints and ends as a file tells it to, that of a source it is called with before that of all.
PROGRAM = """
import json, os, pathlib, sys, time
root = pathlib.Path(sys.argv[1])
with (root / "starts").open("a") as starts:
    starts.write(str(os.getpid()) + chr(10))
line = sys.stdin.readline()
if not line:
    sys.exit()
arguments = json.loads(line)
with (root / "calls").open("a") as calls:
    calls.write(json.dumps(arguments) + chr(10))
while (root / "wait").exists():
    time.sleep(0.01)
files = [root / f"told-{word}" for word in arguments]
told = json.loads(next((each for each in files if each.exists()), root / "told").read_text())
sys.stdout.write(told["out"])
sys.stderr.write(told["err"])
raise SystemExit(told["code"])
"""


class Program:
    """The stand-in, and what it is told to do."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._opened: list[RefreshQueue] = []
        (root / "program.py").write_text(PROGRAM)
        self.ends(0, {"release": {"release": 7}})

    def ends(self, code: int, out: object = "", err: object = "", *, of: str | None = None) -> None:
        told = {
            name: said if isinstance(said, str) else json.dumps(said)
            for name, said in (("out", out), ("err", err))
        }
        (self.root / (f"told-{of}" if of else "told")).write_text(json.dumps({"code": code, **told}))

    def fails(self, **temporary: bool) -> None:
        """These sources fail, each for now or for good."""
        failures = [
            {"source": source, "error": "no answer", "temporary": each} for source, each in temporary.items()
        ]
        self.ends(1, {"failures": failures, "release": {"release": 7}})

    def hold(self) -> None:
        (self.root / "wait").touch()

    def go_on(self) -> None:
        (self.root / "wait").unlink()

    @property
    def calls(self) -> list[list[str]]:
        file = self.root / "calls"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    @property
    def starts(self) -> int:
        file = self.root / "starts"
        return len(file.read_text().splitlines()) if file.exists() else 0

    def refreshes(self, command: tuple[str, ...] | None = None) -> RefreshQueue:
        program = command or (sys.executable, "-S", str(self.root / "program.py"), str(self.root))
        opened = RefreshQueue(self.root / "knowledge.yaml", self.root, cli_command=program)
        self._opened.append(opened)
        return opened

    def close(self) -> None:
        """Close what a test left open, as a server does when it ends."""
        for opened in self._opened:
            asyncio.run(opened.close())


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Program]:
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    with closing(Program(tmp_path)) as made:
        yield made


async def until(told) -> None:
    async with asyncio.timeout(120):
        while not told():
            await asyncio.sleep(0.01)


async def ended(refreshes: RefreshQueue) -> None:
    await until(lambda: all(each.status in ("succeeded", "failed") for each in refreshes.list_all()))


def test_a_refresh_runs_the_command_line_in_a_process(program):
    async def scenario():
        refreshes = program.refreshes()
        refresh = refreshes.submit(["a", "b"], "sync")
        assert refresh.status == "queued"
        await ended(refreshes)
        return refresh

    refresh = asyncio.run(scenario())
    config = str(program.root / "knowledge.yaml")
    assert program.calls == [["refresh", "--source", "a", "--source", "b", "--config", config, "--json"]]
    assert (refresh.status, refresh.release, refresh.error) == ("succeeded", 7, None)
    assert refresh.requested_at <= refresh.started_at <= refresh.ended_at


def test_under_dagster_the_refresh_is_recorded_there(program, monkeypatch):
    monkeypatch.setenv("DAGSTER_HOME", str(program.root))

    async def scenario():
        refreshes = program.refreshes()
        refreshes.submit(["a"], "sync")
        await ended(refreshes)

    asyncio.run(scenario())
    assert "--dagster" in program.calls[0]


def test_what_waits_is_not_asked_for_twice_and_what_runs_is_done_once_more(program):
    async def scenario():
        program.hold()
        refreshes = program.refreshes()
        first = refreshes.submit(["a"], "github")
        await until(lambda: first.status == "running" and program.calls)
        second = refreshes.submit(["a"], "github")
        assert second is not first
        assert refreshes.submit(["a"], "github") is second
        both = refreshes.submit(["a", "b"], "sync")
        assert refreshes.submit(["b"], "gitlab") is both
        assert [each.status for each in refreshes.list_all()] == ["queued", "queued", "running"]
        program.go_on()
        await ended(refreshes)
        return [each.id for each in refreshes.list_all()], [both.id, second.id, first.id]

    told, expected = asyncio.run(scenario())
    assert told == expected
    assert [call[1:-3] for call in program.calls] == [["--source", "a"], ["--source", "a", "--source", "b"]]


def test_documents_that_events_name_are_read_together(program, monkeypatch):
    monkeypatch.setattr(module, "GATHER_S", 0.05)
    monkeypatch.setattr(module, "MAX_DOCUMENTS", 100)

    async def scenario():
        program.hold()
        refreshes = program.refreshes()
        burst = [refreshes.submit_documents([f"a/issue/{number}"], "jira") for number in range(99)]
        assert len({each.id for each in burst}) == 1
        assert refreshes.submit_documents(["b/page/1", "b/page/1"], "confluence") is burst[0]
        await until(lambda: burst[0].status == "running" and program.calls)
        later = refreshes.submit_documents(["a/issue/1"], "jira")
        assert later is not burst[0], "the running one may have read the document before"
        whole = refreshes.submit_documents([f"c/issue/{number}" for number in range(101)], "jira")
        assert whole.relist and whole is refreshes.submit_documents(["c/issue/1"], "jira")
        assert refreshes.submit(["c"], "sync") is whole
        assert refreshes.submit(["a"], "jira", relist=True) is not refreshes.submit(["b"], "sync")
        await asyncio.sleep(module.GATHER_S)
        program.go_on()
        await ended(refreshes)
        return burst[0]

    first = asyncio.run(scenario())
    assert first.sources == ("a", "b") and "documents" not in first.as_json()
    named = [[call[at + 1] for at, word in enumerate(call) if word == "--document"] for call in program.calls]
    assert named[0] == [*(f"a/issue/{number}" for number in range(99)), "b/page/1"]
    assert named[1:] == [["a/issue/1"], [], []]
    assert [call[1:-3] for call in program.calls[1:]] == [
        ["--source", "a", "--source", "c", "--document", "a/issue/1", "--relist"],
        ["--source", "a", "--relist"],  # whose documents cannot be named in the same process
        ["--source", "b"],  # not listed in full
    ]


def test_events_of_a_moment_share_a_process_that_starts_meanwhile(program, monkeypatch):
    monkeypatch.setattr(module, "GATHER_S", 3.0)

    async def scenario():
        refreshes = program.refreshes()
        refreshes.submit(["a"], "github")
        await until(lambda: program.starts)
        assert not program.calls
        refreshes.submit_documents(["b/issue/1"], "jira")
        refreshes.submit(["c"], "slack")
        await ended(refreshes)

    asyncio.run(scenario())
    (call,) = program.calls
    assert call[1:-3] == [*("--source", "a", "--source", "b", "--source", "c"), "--document", "b/issue/1"]
    assert program.starts == 1


def test_what_somebody_asks_for_does_not_wait_and_takes_the_events_along(program, monkeypatch):
    monkeypatch.setattr(module, "GATHER_S", 3_600.0)

    async def scenario():
        refreshes = program.refreshes()
        refreshes.submit_documents(["a/issue/1"], "jira")
        refreshes.submit(["b"], "sync")
        await ended(refreshes)

    asyncio.run(scenario())
    assert [call[1:-3] for call in program.calls] == [
        ["--source", "b", "--source", "a", "--document", "a/issue/1"]
    ]


def test_a_server_that_ends_while_events_gather_leaves_no_process(program, monkeypatch):
    monkeypatch.setattr(module, "GATHER_S", 3_600.0)

    async def scenario():
        refreshes = program.refreshes()
        refresh = refreshes.submit_documents(["a/issue/1"], "jira")
        await until(lambda: program.starts)
        await refreshes.close()
        return refresh

    assert asyncio.run(scenario()).status == "queued"
    with pytest.raises(ProcessLookupError):
        os.kill(int((program.root / "starts").read_text()), 0)
    assert not program.calls


def test_a_prepared_process_that_was_killed_is_followed_by_another(program, monkeypatch):
    monkeypatch.setattr(module, "GATHER_S", 1.0)

    async def scenario():
        refreshes = program.refreshes()
        refresh = refreshes.submit_documents(["a/issue/1"], "jira")
        await until(lambda: program.starts)
        os.kill(int((program.root / "starts").read_text()), signal.SIGKILL)
        await ended(refreshes)
        return refresh

    assert asyncio.run(scenario()).status == "succeeded"
    assert (program.starts, len(program.calls)) == (2, 1)


@pytest.mark.parametrize(
    ("out", "err", "problem"),
    [
        ({"failures": [{"source": "a", "error": "gone", "temporary": False}]}, "", "a: gone"),
        ("", {"error": "the file is wrong", "kind": "ConfigError"}, "the file is wrong"),
        ("no JSON", "Traceback: no JSON either", "it ended with exit code 1"),
        ({"run": "1", "failure": "the run failed"}, "", "the run failed"),
    ],
)
def test_a_failed_refresh_keeps_its_sentence(program, out, err, problem):
    async def scenario():
        program.ends(1, out, err)
        refreshes = program.refreshes()
        refresh = refreshes.submit(["a"], "sync")
        await ended(refreshes)
        return refresh

    refresh = asyncio.run(scenario())
    assert (refresh.status, refresh.error) == ("failed", problem)


def test_what_waits_shares_a_process_and_a_source_that_fails_fails_no_other(program):
    async def scenario():
        program.hold()
        refreshes = program.refreshes()
        running = refreshes.submit(["x"], "github")
        await until(lambda: program.calls)
        burst = [refreshes.submit([source], "github") for source in "abc"]
        program.fails(b=False)
        program.go_on()
        await ended(refreshes)
        return running, *burst

    told = asyncio.run(scenario())
    assert [call[1:-3] for call in program.calls] == [
        ["--source", "x"],
        ["--source", "a", "--source", "b", "--source", "c"],
    ]
    assert [each.error for each in told] == [None, None, "b: no answer", None]
    assert [each.status for each in told] == ["succeeded", "succeeded", "failed", "succeeded"]


def test_where_a_process_ends_without_a_word_of_its_sources_each_gets_its_own(program):
    async def scenario():
        program.ends(3, "", {"error": "there is no source 'b'", "kind": "NotFound"}, of="b")
        refreshes = program.refreshes()
        told = [refreshes.submit([source], "github") for source in "abc"]
        await ended(refreshes)
        return told

    told = asyncio.run(scenario())
    assert [each.status for each in told] == ["succeeded", "failed", "succeeded"]
    assert told[1].error == "there is no source 'b'" and len(program.calls) == 4


def test_what_may_work_later_is_tried_again_some_times_and_then_left_to_the_listing(program, monkeypatch):
    monkeypatch.setattr(module, "GATHER_S", 0.0)
    monkeypatch.setattr(module, "RETRY_PAUSES_S", (0.01, 0.02))

    async def scenario():
        program.fails(a=True, b=False)
        refreshes = program.refreshes()
        refresh = refreshes.submit_documents(["a/issue/1", "b/page/2", "c/page/3"], "jira")
        refreshes.note_event(refresh, ["a"], "jira", "jira:issue_updated")
        await ended(refreshes)
        return refreshes.list_all()

    last, second, first = asyncio.run(scenario())
    assert first.error == "a: no answer; b: no answer (tried again in 0:00)"
    assert second.error == "a: no answer (tried again in 0:00)"
    assert last.error == "a: no answer (tried 3 times: left to the next listing)"
    (event,) = list_last_events(program.root)
    assert (event["state"], event["error"]) == ("failed", "no answer (left to the next listing)")
    again = ["--source", "a", "--document", "a/issue/1"]
    assert [call[1:-3] for call in program.calls[1:]] == [again, again]
    assert {each.status for each in program.refreshes().list_all()} == {"failed"}


def test_what_waits_to_be_tried_again_holds_nothing_up_and_outlives_the_server(program, monkeypatch):
    monkeypatch.setattr(module, "GATHER_S", 0.0)
    monkeypatch.setattr(module, "RETRY_PAUSES_S", (1_000.0,))

    async def scenario():
        program.fails(a=True)
        refreshes = program.refreshes()
        first = refreshes.submit(["a"], "github")
        await until(lambda: first.status == "failed")
        waiting = refreshes.list_all()[0]
        program.ends(0, {"release": {"release": 8}})
        other = refreshes.submit_documents(["b/page/1"], "confluence")
        await until(lambda: other.status == "succeeded")
        assert (waiting.sources, waiting.status, waiting.reason) == (("a",), "queued", "github")
        await refreshes.close()
        following = program.refreshes()
        following.resume()
        await ended(following)
        assert following.list_own()[0].id == waiting.id
        await following.close()

    asyncio.run(scenario())
    assert [call[2] for call in program.calls] == ["a", "b", "a"]


def test_an_event_ends_the_pause_of_its_own_source_alone(program, monkeypatch):
    monkeypatch.setattr(module, "GATHER_S", 0.0)
    monkeypatch.setattr(module, "RETRY_PAUSES_S", (1_000.0, 1_000.0))

    async def scenario():
        program.fails(a=True, b=True)
        refreshes = program.refreshes()
        refreshes.submit(["a"], "sync")
        refreshes.submit_documents(["b/issue/1"], "jira")
        await until(lambda: len(refreshes.list_all()) == 4)
        _, waiting = sorted(
            (each for each in refreshes.list_all() if each.tries), key=lambda each: each.sources
        )
        other = refreshes.submit_documents(["c/issue/1"], "jira")
        await until(lambda: other.status == "succeeded")
        assert waiting.status == "queued" and other is not waiting
        assert refreshes.submit_documents(["b/issue/2"], "jira") is waiting
        await until(lambda: waiting.status == "failed")
        queued = sorted(each.sources for each in refreshes.list_all() if each.status == "queued")
        assert queued == [("a",), ("b",)]
        await refreshes.close()

    asyncio.run(scenario())
    assert [call[1:-3] for call in program.calls[1:]] == [
        ["--source", "c", "--document", "c/issue/1"],
        ["--source", "b", "--document", "b/issue/1", "--document", "b/issue/2"],
    ]


def test_the_last_event_of_each_source_is_known_and_what_became_of_it(program, monkeypatch):
    monkeypatch.setattr(module, "RETRY_PAUSES_S", (1_000.0,))
    secret = "ghp_" + "a1B2" * 9

    def known() -> list[list[str | None]]:
        events = list_last_events(program.root)
        return [[each[name] for name in ("source", "kind", "state", "error")] for each in events]

    async def scenario():
        failures = [
            {"source": "b", "error": f"no answer to {secret}", "temporary": False},
            {"source": "c", "error": "no answer", "temporary": True},
        ]
        program.ends(1, {"failures": failures})
        refreshes = program.refreshes()
        assert known() == []
        refresh = refreshes.submit(["a", "b", "c", "d"], "github")
        refreshes.note_event(refresh, ["a", "b", "c"], "github", "push")
        assert {each[2] for each in known()} == {"waiting"}
        await until(lambda: refresh.status == "failed")
        assert known()[1][2] == "failed" and known()[1][3] in refresh.error
        later = refreshes.submit(["b"], "github")
        refreshes.note_event(later, ["b"], "github", "gollum")
        program.ends(0)
        await until(lambda: later.status == "succeeded")
        await refreshes.close()
        return refresh.error

    error = asyncio.run(scenario())
    assert secret not in error and "[REDACTED:" in error
    assert known() == [
        ["a", "push", "done", None],
        ["b", "gollum", "done", None],
        ["c", "push", "waiting", "no answer"],
    ]


def test_a_program_that_cannot_be_started_is_a_failure_and_the_next_one_is_tried(program, monkeypatch):
    monkeypatch.setattr(module, "RETRY_PAUSES_S", ())

    async def scenario():
        refreshes = program.refreshes((str(program.root / "none"),))
        refreshes.submit(["a"], "sync")
        refreshes.submit(["b"], "sync")
        await ended(refreshes)
        return refreshes.list_all()

    assert [each.status for each in asyncio.run(scenario())] == ["failed", "failed"]


def test_the_last_hundred_are_kept_and_no_more_than_a_hundred_wait(program, monkeypatch):
    monkeypatch.setattr(module, "MAX_QUEUED", 3)

    async def scenario():
        program.hold()
        refreshes = program.refreshes()
        running = refreshes.submit(["running"], "sync")
        await until(lambda: running.status == "running")
        for number in range(3):
            refreshes.submit([f"s{number}"], "sync")
        with pytest.raises(TooManyRequests):
            refreshes.submit(["one too many"], "sync")
        program.go_on()
        await ended(refreshes)
        return len(refreshes.list_all())

    assert asyncio.run(scenario()) == 4
    assert module.MAX_FINISHED == 100


def test_the_server_ends_a_refresh_with_itself_and_starts_no_other(program, monkeypatch):
    monkeypatch.setattr(module, "GRACE_S", 0.5)

    async def scenario():
        program.hold()
        refreshes = program.refreshes()
        running = refreshes.submit(["a"], "sync")
        refreshes.submit(["b"], "sync")
        await until(lambda: program.calls)
        await refreshes.close()
        return running

    running = asyncio.run(scenario())
    assert (running.status, running.error) == ("interrupted", None)
    assert len(program.calls) == 1


def test_erasing_is_never_taken_for_a_refresh(program):
    async def scenario():
        program.hold()
        refreshes = program.refreshes()
        first = refreshes.submit(["x"], "sync")
        await until(lambda: first.status == "running")
        erasing = refreshes.submit_purge("a")
        assert refreshes.submit(["a"], "sync") is not erasing
        program.go_on()
        await ended(refreshes)

    asyncio.run(scenario())
    assert program.calls[1][:4] == ["purge", "--source", "a", "--yes"]


KILLED = """
import asyncio, os, pathlib, sys
from knowledge_pipeline.serve.refreshes import RefreshQueue
from knowledge_pipeline_tests.full_disk import limited_files
root = pathlib.Path(sys.argv[1])
async def scenario():
    program = (sys.executable, "-S", str(root / "program.py"), str(root))
    refreshes = RefreshQueue(root / "knowledge.yaml", root, cli_command=program)
    refreshes.resume()
    if len(sys.argv) > 2:
        refreshes.submit(["a"], "github")
        while not (root / "calls").exists():
            await asyncio.sleep(0.01)
        refreshes.submit(["b", "c"], "gitlab")
        refreshes.submit(["a"], "github")
        refreshes.submit_purge("d")
        refreshes.submit_documents(["e/issue/1"], "jira")
        refreshes.submit_documents(["f/page/2"], "confluence")
        refreshes.submit(["g"], "slack", relist=True)
    os.kill(os.getpid(), 9)
asyncio.run(scenario())
"""


def test_what_waited_when_servers_were_killed_is_done_once_by_the_next(program, monkeypatch):
    monkeypatch.setattr(module, "GATHER_S", 0.0)  # all is due, however soon the servers were killed
    program.hold()
    for first in (["first"], [], []):  # the later ones are killed right after they have taken it over
        done = subprocess.run([sys.executable, "-c", KILLED, str(program.root), *first], check=False)
        assert done.returncode == -9
    program.go_on()
    (program.root / "calls").unlink()

    async def scenario():
        refreshes = program.refreshes()
        refreshes.resume()
        again = refreshes.submit(["b"], "gitlab")
        await ended(refreshes)
        told = {each.id: each.status for each in refreshes.list_all()}
        await refreshes.close()
        return again.sources, [each.reason for each in refreshes.list_all()], told

    promised = {each.id: each.status for each in program.refreshes().list_all()}  # by nobody who lives
    covered_by, reasons, told = asyncio.run(scenario())
    assert set(promised.values()) == {"interrupted"} and len(promised) == 6
    assert told == dict.fromkeys(promised, "succeeded")  # under their ids, that which another covers too
    assert {each.id: each.status for each in program.refreshes().list_all()} == told
    assert [call[:-3] for call in program.calls] == [
        ["refresh", "--source", "a", "--source", "b", "--source", "c"],
        ["purge", "--source", "d", "--yes"],
        [
            *("refresh", "--source", "e", "--source", "f", "--source", "g"),
            *("--document", "e/issue/1", "--document", "f/page/2", "--relist"),
        ],
    ]
    assert covered_by == ("b", "c") and sorted(reasons) == [
        *("github", "github", "gitlab", "jira", "purge", "slack"),
    ]


def test_a_server_that_ends_leaves_the_rest_to_the_next_and_takes_nothing_of_a_living_one(program):
    async def scenario():
        program.hold()
        first, other = program.refreshes(), program.refreshes()
        first.submit(["a"], "sync")
        await until(lambda: program.calls)
        first.submit(["b"], "sync")
        other.resume()
        assert [each.status for each in other.list_all()] == ["queued", "running"]  # of the first
        assert other.list_own() == []
        await first.close()
        assert [each.status for each in other.list_all()] == ["interrupted", "interrupted"]
        program.go_on()
        other.resume()
        await ended(other)
        await other.close()
        return [(each.sources, each.status) for each in other.list_all()]

    assert asyncio.run(scenario()) == [(("b",), "succeeded"), (("a",), "succeeded")]


def test_a_disk_that_is_full_loses_no_refresh_of_a_server_that_goes_on(program, caplog):
    async def scenario():
        refreshes = program.refreshes()
        with limited_files(0):
            refresh = refreshes.submit(["a"], "github")
        await ended(refreshes)
        return refresh

    assert asyncio.run(scenario()).status == "succeeded"
    assert "a refresh is lost if the server stops before it" in caplog.text


def test_without_a_file_nothing_can_be_refreshed(tmp_path):
    with pytest.raises(ConfigError, match=r"without a knowledge.yaml"):
        RefreshQueue(None, tmp_path).submit(["a"], "sync")

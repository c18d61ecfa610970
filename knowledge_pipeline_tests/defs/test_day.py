"""A day of an instance, with its daemon running: what comes by itself, what breaks, and what is left.

The end is one assertion: the index holds what a full index of the final state would hold.
"""

import os
import signal
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest

from knowledge_pipeline.config.file import load_settings
from knowledge_pipeline.defs.commit_sensors import parse_cursor
from knowledge_pipeline.stages import pipeline
from knowledge_pipeline.stages.context import RefreshOptions
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.release import find_live_release
from knowledge_pipeline_tests.defs.daemon import Daemon, running
from knowledge_pipeline_tests.fakes.openai_server import OpenAIServer

pytestmark = [pytest.mark.slow, pytest.mark.storage, pytest.mark.waits, pytest.mark.timeout(2400)]

_GIT = ("git", "-c", "user.name=day", "-c", "user.email=day@example.org", "-c", "commit.gpgsign=false")


class Repository:
    """A repository that others fetch from, and the working copy that pushes to it."""

    def __init__(self, root: Path, name: str) -> None:
        self.remote, self.copy = root / f"{name}.git", root / name
        self._git(root, "init", "-q", "--bare", "-b", "main", str(self.remote))
        self._git(root, "clone", "-q", str(self.remote), str(self.copy))

    def push(self, message: str, **files: str | None) -> str:
        """Commit files (`a_py` is `a.py`; None deletes one), push, and return the commit."""
        for name, text in files.items():
            path = self.copy / name.replace("_", ".")
            if text is None:
                path.unlink()
            else:
                path.write_text(text)
        self._git(self.copy, "add", "-A")
        self._git(self.copy, "commit", "-qm", message)
        self._git(self.copy, "push", "-q", "origin", "HEAD:main")
        return self._git(self.copy, "rev-parse", "HEAD")

    def push_other_history(self, message: str, **files: str) -> str:
        """Replace the last commit by another one, and force it on the remote."""
        self._git(self.copy, "reset", "-q", "--hard", "HEAD~1")
        for name, text in files.items():
            (self.copy / name.replace("_", ".")).write_text(text)
        self._git(self.copy, "add", "-A")
        self._git(self.copy, "commit", "-qm", message)
        self._git(self.copy, "push", "-q", "--force", "origin", "HEAD:main")
        return self._git(self.copy, "rev-parse", "HEAD")

    @staticmethod
    def _git(where: Path, *words: str) -> str:
        done = subprocess.run([*_GIT, *words], cwd=where, check=True, capture_output=True, text=True)
        return done.stdout.strip()


def at(minutes: float) -> str:
    """A cron expression that ticks once a day, so many minutes from now."""
    then = datetime.now(UTC) + timedelta(minutes=minutes)
    return f"{then.minute} {then.hour} * * *"


class Day:
    """The project's `knowledge.yaml` as its people edit it."""

    def __init__(self, root: Path, server: OpenAIServer) -> None:
        self.path, self._server = root / "knowledge.yaml", server
        self.daily, self.weekly_reindex = at(5), at(6)
        self.sources: dict[str, str] = {}

    def declare(self, id_: str, type_: str, repository: Repository, **refresh: str) -> None:
        how = ", ".join(f"{name}: {value}" for name, value in refresh.items())
        self.sources[id_] = (
            f"  - {{id: {id_}, type: {type_}, connection: {{type: git, url: '{repository.remote}'}}"
            + (f", refresh: {{{how}}}}}" if how else "}")
        )

    def write(self) -> None:
        self.path.write_text(
            f"version: 1\nstore: store\nreleases: {{keep_removed_days: 0}}\n"
            f"schedules: {{daily: '{self.daily}', weekly_reindex: '{self.weekly_reindex}'}}\n"
            f"embedding:\n  provider: openai\n  model: hashed-words\n  base_url: {self._server.url}\n"
            f"  api_key: ${{TEST_EMBEDDING_KEY}}\n  dimensions: {self._server.dimensions}\n  batch_size: 8\n"
            "sources:\n" + "\n".join(self.sources.values()) + "\n"
        )


def function(name: str, number: int = 1) -> str:
    return f"def {name}():\n    return {number}\n"


def content(lake: Lake) -> dict[str, list[dict]]:
    """What can be found: index rows of documents that are there, but for times of writing."""
    held: dict[str, list[dict]] = {}
    for space, dimensions in lake.list_spaces().items():
        table = lake.index(space, dimensions)
        left_out = {"indexed_at", "updated_at"}
        rows = table.read_rows([name for name in table.schema.names if name not in left_out]).to_pylist()
        held[space] = sorted((row for row in rows if not row["archived"]), key=lambda row: row["id"])
    return held


def done(daemon: Daemon, status: str = "SUCCESS", **tags: str) -> bool:
    return any(run.status.value == status for run in daemon.runs(**tags))


def test_a_day_ends_with_the_index_that_a_full_reindex_would_make(
    tmp_path, monkeypatch, dagster_home: Path, dagster_yaml: Path
) -> None:
    with OpenAIServer() as server:
        monkeypatch.setenv("TEST_EMBEDDING_KEY", server.key)
        app, lib, site = (Repository(tmp_path, name) for name in ("app", "lib", "site"))
        app.push("first", a_py=function("a"), notes_md="# Notes\n\nOf the application.\n")
        lib.push("first", b_py=function("b"))
        lib.push("second", c_py=function("c"))
        site.push("first", index_md="# Site\n\nWelcome.\n", d_py=function("d"))
        day = Day(tmp_path, server)
        day.declare("app-code", "code", app, full_reindex="weekly")
        day.declare("app-docs", "markdown", app)
        day.declare("lib-code", "code", lib)
        day.declare("site-docs", "markdown", site)
        day.write()
        with running(dagster_home, day.path, instance_file=dagster_yaml, code_stays=True) as daemon:
            _live(daemon, day, server, app, lib, site)
        _compare(tmp_path, day)


def _live(
    daemon: Daemon, day: Day, server: OpenAIServer, app: Repository, lib: Repository, site: Repository
) -> None:
    lake = Lake(load_settings(day.path).store)

    def released() -> int:
        release = find_live_release(lake)
        return release.rows if release else 0

    # Morning: partitions and a first refresh come by themselves.
    daemon.until(lambda: released() == 5, "everything is indexed and released")
    daemon.until(
        lambda: (
            all(
                str(seen.remote) in parse_cursor(daemon.cursor("changed_sources"))[0].stood
                for seen in (app, lib, site)
            )
            and daemon.idle()
        ),
        "repositories were seen",
    )

    # Commits in three repositories, one of them unreachable, one force-pushed.
    site.push("while nobody can reach it", d_py=function("d", 2), index_md="# Site\n\nChanged.\n")
    away = site.remote.rename(site.remote.with_suffix(".away"))
    pushed = app.push("new function", a_py=function("a") + "\n\n" + function("a2"))
    forced = lib.push_other_history("another second", e_py=function("e"))
    for commit in (pushed, forced):
        daemon.until(lambda commit=commit: done(daemon, commit=commit), "a commit was refreshed")
    (run,) = daemon.runs(commit=pushed)
    assert {tag for tag in run.tags if tag.startswith("source/")} == {"source/app-code", "source/app-docs"}
    assert not daemon.runs(repository=str(site.remote))

    # It can be reached again; one source is added, one removed.
    away.rename(site.remote)
    day.declare("site-code", "code", site)
    del day.sources["app-docs"]
    day.write()
    daemon.until(lambda: done(daemon, trigger="removed"), "the removed source was purged")
    daemon.until(lambda: lake.list_stored_sources().keys() == day.sources.keys(), "sources follow the file")
    keys = {"code": {"app-code", "lib-code", "site-code"}, "markdown": {"site-docs"}}
    for type_, ids in keys.items():
        daemon.until(
            lambda type_=type_, ids=ids: (
                set(daemon.instance.get_dynamic_partitions(f"{type_}_sources")) == ids
            ),
            "partitions follow the file",
        )
    daemon.until(lambda: daemon.runs(repository=str(site.remote)), "the commit made meanwhile was seen", 700)

    # A worker is killed while it embeds a large commit; the run is taken up again.
    server.wait_s = 3.0
    big = lib.push("large", **{f"f{number}_py": function(f"f{number}") for number in range(60)})
    daemon.until(
        lambda: (
            any("knowledge/process" in run.tags for run in daemon.runs(commit=big))
            and lake.chunks("code", "lib-code").count_rows() > 40
        ),
        "the large commit is being embedded",
    )
    first = daemon.runs(commit=big)[-1]
    os.kill(daemon.worker(first.run_id), signal.SIGKILL)
    server.wait_s = 0.0
    daemon.until(lambda: done(daemon, status="FAILURE", commit=big), "the lost worker was noticed")
    daemon.until(lambda: done(daemon, commit=big), "the run was taken up again", 400)

    # The daily tick and the weekly reindex, by the clock.
    for trigger in ("daily", "weekly_reindex"):
        daemon.until(lambda trigger=trigger: done(daemon, trigger=trigger), f"the {trigger} run", 400)
    daemon.until(daemon.idle, "nothing is left to do")
    _tells_the_story(daemon)


def _tells_the_story(daemon: Daemon) -> None:
    """The run history says what happened, and nothing failed but the run that was killed."""
    triggers = {run.tags.get("knowledge/trigger") for run in daemon.instance.get_runs()}
    assert {"added", "commit", "removed", "daily", "weekly_reindex"} <= triggers
    (failed,) = [run for run in daemon.instance.get_runs() if run.status == dg.DagsterRunStatus.FAILURE]
    assert failed.tags["knowledge/trigger"] == "commit"
    (reindex,) = daemon.runs(trigger="weekly_reindex")
    assert reindex.run_config["ops"]["refresh_sources"]["config"]["sources"] == ["app-code"]


def _compare(root: Path, day: Day) -> None:
    settings = load_settings(day.path)
    full = Lake(root / "full")
    assert not pipeline.refresh(full, settings, settings.sources, RefreshOptions(full=True)).failures
    found = content(Lake(settings.store))
    assert found == content(full)
    assert sum(map(len, found.values())) > 60

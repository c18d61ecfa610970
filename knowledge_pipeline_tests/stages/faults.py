"""Faults at a commit of a refresh, beside a reader and a second writer, and what they leave.

A `Writer` is a process that refreshes on request, and lets one of its commits end in a fault. It says so when
it gets there, waits until a second writer has begun, and goes on: it fails, dies, stops, or its clock jumps.
Faults are put at the one place through which every table is written; signals, processes and locks are real,
and the clock is that of the process's C library.
"""

from __future__ import annotations

import ctypes
import errno
import multiprocessing
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import lance
import pytest

from knowledge_pipeline import KnowledgeBase
from knowledge_pipeline import maintenance as maintain
from knowledge_pipeline.config.store import ObjectStore
from knowledge_pipeline.errors import KnowledgeError
from knowledge_pipeline.maintenance import MaintenanceOptions
from knowledge_pipeline.stages.verify import verify
from knowledge_pipeline.store import locks as leases
from knowledge_pipeline.store.lance_storage import open_dataset
from knowledge_pipeline.store.object_store import ObjectPath
from knowledge_pipeline.store.tables import Table
from knowledge_pipeline_tests.conftest import Project, tables
from knowledge_pipeline_tests.fakes.bucket.store import RemoteProject

QUESTION = "how are sessions signed"
LEASE_S = 2.0  # of writers at a bucket; they renew four times as often
JUMP_S = 60
_ENDS_S = 240.0  # within which a writer says something
_SPAWN = multiprocessing.get_context("spawn")
_CLOCK = Path(__file__).with_name("shifted_clock.c")

Answer = list[tuple[str, str]]  # path and content of each result
Write = Callable[[], Any]
Fault = Callable[[Write], Any]
"""What happens instead of a write."""


def fail_before(number: int) -> Fault:
    def fault(write: Write) -> None:
        raise OSError(number, os.strerror(number))

    return fault


def lose_the_answer(write: Write) -> None:
    """The write is done, and who wrote is told that it was not."""
    write()
    raise OSError(errno.EIO, "the answer was lost")


def die_before(write: Write) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_after(write: Write) -> None:
    write()
    os.kill(os.getpid(), signal.SIGKILL)


def stop(write: Write) -> Any:
    """Until somebody sends SIGCONT."""
    os.kill(os.getpid(), signal.SIGSTOP)
    return write()


def jump(seconds: int) -> Fault:
    def fault(write: Write) -> Any:
        _shift_clock(seconds)
        return write()

    return fault


FAULTS: dict[str, Fault] = {
    "killed before the commit": die_before,
    "killed after the commit": die_after,
    "ENOSPC": fail_before(errno.ENOSPC),
    "EIO": fail_before(errno.EIO),
    "lost answer": lose_the_answer,
    "clock 60 s ahead": jump(JUMP_S),
    "clock 60 s back": jump(-JUMP_S),
    "SIGSTOP": stop,
}


def _shift_clock(seconds: int) -> None:
    """Let the clock of this process say another time from now on, to Python and to Lance."""
    before = time.time()
    ctypes.CDLL(None).shift_clock(ctypes.c_long(seconds))
    assert not seconds or abs(time.time() - before - seconds) < JUMP_S / 2, "the clock did not jump"


@dataclass(frozen=True)
class Job:
    """One refresh of a store, and the fault of one of its commits; 0: of none."""

    root: Path
    embedding: Any
    sources: dict[str, dict[str, Any]]
    store: ObjectStore | None = None
    fault: str = ""
    commit: int = 0

    @property
    def project(self) -> Project:
        """The project that is refreshed."""
        if self.store is None:
            made = Project(self.root, self.embedding)
        else:
            made = RemoteProject(self.root, self.embedding, self.store)
        made.sources = self.sources
        return made


@contextmanager
def fault_at(commit: int, fault: Fault) -> Iterator[list[int]]:
    """Let the n-th commit of this process end in a fault; how many there were."""
    count, undisturbed = [0], Table._commit

    def disturbed(table: Table, write: Write, *, stage: Write | None = None) -> None:
        count[0] += 1
        if count[0] != commit:
            undisturbed(table, write, stage=stage)
        elif isinstance(table.path, ObjectPath) and stage:
            undisturbed(table, write, stage=lambda: fault(stage))
        else:
            undisturbed(table, lambda: fault(write))

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Table, "_commit", disturbed)
        yield count


def _refresh_on_request(pipe: Connection) -> None:
    """The body of a writer's process."""
    leases.EXPIRES_S, leases.RENEW_INTERVAL_S = LEASE_S, LEASE_S / 4
    while True:
        job: Job = pipe.recv()

        def strike(write: Write, job: Job = job) -> Any:
            pipe.send("struck")
            pipe.recv()
            return FAULTS[job.fault](write)

        with fault_at(job.commit, strike):
            try:
                failures = job.project.refresh().failures
                told = "; ".join(map(str, failures.values()))
            except (OSError, KnowledgeError) as error:
                told = str(error)
        if job.fault.startswith("clock"):
            _shift_clock(0)
        pipe.send(f"end: {told}")


class Writer:
    """A process that refreshes on request; one that was killed is started anew."""

    def __init__(self, clock: Path | None = None) -> None:
        self._clock = clock  # the library by which its clock can jump
        self._process: multiprocessing.process.BaseProcess | None = None

    def start(self, job: Job) -> None:
        """Begin a refresh."""
        if self._process is None or not self._process.is_alive():
            self._pipe, others = _SPAWN.Pipe()
            self._process = _SPAWN.Process(target=_refresh_on_request, args=(others,), daemon=True)
            with pytest.MonkeyPatch.context() as patched:
                if self._clock:
                    patched.setenv("LD_PRELOAD", str(self._clock))
                self._process.start()
            others.close()
        self._pipe.send(job)

    def wait(self) -> str:
        """What it says next: "struck" at the fault, "end: ..." at the end, "killed"."""
        assert self._process
        try:
            assert self._pipe.poll(_ENDS_S), "the writer says nothing"
            return self._pipe.recv()
        except EOFError:
            self._process.join()
            assert self._process.exitcode == -signal.SIGKILL
            return "killed"

    def go_on(self) -> None:
        """Let the fault happen."""
        self._pipe.send("go on")

    def wait_until_stopped(self) -> None:
        """Until its process is stopped by a signal."""
        assert self._process
        while "\nState:\tT" not in Path(f"/proc/{self._process.pid}/status").read_text():
            time.sleep(0.01)

    def send(self, number: signal.Signals) -> None:
        """Send its process a signal."""
        assert self._process and self._process.pid
        os.kill(self._process.pid, number)

    def close(self) -> None:
        """End the process."""
        if self._process:
            self._process.kill()
            self._process.join()


@dataclass
class Reader:
    """Asks the same question again and again; `wrong` has each answer that is none of a release."""

    project: Project
    releases: list[Answer]
    count: int = 0
    wrong: list[Any] = field(default_factory=list[Any])

    @contextmanager
    def asking(self) -> Generator[None]:
        """Ask in a thread for as long as the context is open, at least once."""
        done = threading.Event()
        thread = threading.Thread(target=self._ask_until, args=(done,))
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def _ask_until(self, done: threading.Event) -> None:
        with KnowledgeBase(unlogged(self.project)) as base:
            while not (done.is_set() and self.count):
                began = time.monotonic()
                try:
                    found = answer(base)
                    if found not in self.releases:
                        self.wrong.append(found)
                except (KnowledgeError, OSError) as error:
                    self.wrong.append(error)
                self.count += 1
                took_s = time.monotonic() - began
                done.wait(max(0.05, 3 * took_s))  # leave the processor to the writers


@dataclass(frozen=True)
class Aftermath:
    """What a fault left: everything wrong in words, nothing where all is well."""

    reached: bool  # whether the refresh had so many commits
    told: str = ""  # by the writer
    answers: int = 0
    wrong_answers: tuple[str, ...] = ()
    unreadable_versions: tuple[str, ...] = ()
    wrong_tables: tuple[str, ...] = ()  # whose rows differ from those of an undisturbed refresh


DAMAGES: dict[str, Callable[[Path], object]] = {
    "zeroed": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "truncated": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "removed": lambda path: path.unlink(),
}
DAMAGED_FILES = {
    "rows": "*/*/**/data/*.lance",
    "newest versions": "*/*/**/_versions/*.manifest",
    "indexes": "index/*/_indices/*/*",
    "local state": "state.sqlite",
}


@dataclass(frozen=True)
class DamageAftermath:
    """What a damaged file did: to the first answer, and to what a repair and a refresh left."""

    asked: str  # "right", "degraded", "refused" or "wrong"
    is_found: bool  # by `verify`
    wrong: tuple[str, ...]  # tables that differ from those of a sound store, and failures
    last: str  # as `asked`, after the repair


@dataclass
class Matrix:
    """A store that is about to be refreshed, and the faults that may befall it.

    `changed` has a release and sources that have changed since; nothing here changes it.
    """

    changed: Project
    folder: Path
    open_bucket: Callable[[Path], ObjectStore] | None = None  # a place in a bucket for one run
    writer: Writer = field(init=False)
    second: Writer = field(init=False)

    def __post_init__(self) -> None:
        self.writer, self.second = Writer(build_clock(self.folder)), Writer()
        self.calm = self.copy(self.folder / "calm")
        with KnowledgeBase(unlogged(self.calm)) as base:
            before = answer(base)
        with fault_at(0, die_before) as count:
            self.calm.refresh()
        self.commits = count[0]
        with KnowledgeBase(unlogged(self.calm)) as base:
            self.releases = [before, answer(base)]
        assert self.releases[0] != self.releases[1]

    def copy(self, root: Path) -> Project:
        """The same sources, and a store of its own in the same state, in a folder."""
        shutil.copytree(self.changed.root / "store", root / "store")
        copy = Project(root, self.changed.embedding)
        copy.sources = self.changed.sources
        return copy

    def copy_to_bucket(self, root: Path) -> RemoteProject:
        """The same in a bucket."""
        assert self.open_bucket
        copy = RemoteProject(root, self.changed.embedding, self.open_bucket(root))
        copy.sources = self.changed.sources
        from knowledge_pipeline.store.object_store import open_client

        client, source = open_client(copy.store), self.changed.root / "store"
        for path in source.rglob("*"):
            place = path.relative_to(source)
            if path.is_file() and place.parts[0] not in ("locks", "cache"):
                client.put(place.as_posix(), path.read_bytes())
        return copy

    def run(self, fault: str, commit: int, *, maintained: bool = False, bucket: bool = False) -> Aftermath:
        """One refresh with one fault and a reader beside it, and a look at what is left.

        A second writer goes on where the first one ended, or maintenance comes before anybody does.
        """
        root = self.folder / f"{fault} {commit}{' maintained' * maintained}{' bucket' * bucket}"
        root.mkdir()
        project = self.copy_to_bucket(root) if bucket else self.copy(root)
        job = Job(root, project.embedding, project.sources, getattr(project, "store", None), fault, commit)
        reader = Reader(project, self.releases)
        with reader.asking():
            told = self._strike(job, project, beside=not maintained)
        if told is None:
            return Aftermath(reached=False)
        if maintained:
            maintain.refresh(project.lake, project.settings)
        unreadable = unreadable_versions(project)
        project.refresh()
        unreadable += unreadable_versions(project)
        with KnowledgeBase(unlogged(project)) as base:
            if (last := answer(base)) != self.releases[1]:
                reader.wrong.append(last)
        found, expected = tables(project), tables(self.calm)
        wrong = [name for name in {**found, **expected} if found.get(name) != expected.get(name)]
        wrong_answers = tuple(map(str, reader.wrong))
        shutil.rmtree(root)
        return Aftermath(True, told, reader.count, wrong_answers, tuple(unreadable), tuple(wrong))

    def list_files(self, pattern: str) -> list[Path]:
        """The files of the store without faults that a pattern names, from its root; logs are no part."""
        root = self.calm.root / "store"
        paths = (path.relative_to(root) for path in root.glob(pattern))
        return sorted(path for path in paths if path.parts[0] != "logs")

    def damage(self, path: Path, how: str) -> DamageAftermath:
        """A question, a repair, a refresh and a question more after one file of the store was damaged."""
        root = self.folder / f"{path.name} {how}"
        shutil.copytree(self.calm.root / "store", root / "store")
        project = Project(root, self.calm.embedding)
        project.sources = self.calm.sources
        DAMAGES[how](root / "store" / path)
        is_found = bool(verify(project.lake))  # before a question begins a damaged local state anew
        asked = self._ask_damaged(project)
        maintain.refresh(project.lake, project.settings, options=MaintenanceOptions(repair=True))
        failures = project.refresh().failures
        found, expected = tables(project), tables(self.calm)
        wrong = [name for name in {**found, **expected} if found.get(name) != expected.get(name)]
        last = self._ask_damaged(project)
        shutil.rmtree(root)
        return DamageAftermath(asked, is_found, (*wrong, *map(str, failures.values())), last)

    def _ask_damaged(self, project: Project) -> str:
        try:
            with KnowledgeBase(unlogged(project)) as base:
                response = base.search(QUESTION, limit=20)
        except KnowledgeError:
            return "refused"
        if response.degraded:
            return "degraded"
        results = [(result.citation.path, result.content) for result in response.results]
        return "right" if results == self.releases[1] else "wrong"

    def _strike(self, job: Job, project: Project, *, beside: bool) -> str | None:
        """What the writer says at its end; None if it never came to the fault."""
        self.writer.start(job)
        if self.writer.wait() != "struck":
            return None
        if beside:
            self.second.start(Job(job.root, job.embedding, job.sources, job.store))
            time.sleep(0.1)  # it comes to the lock
        self.writer.go_on()
        if job.fault == "SIGSTOP":
            self.writer.wait_until_stopped()
            if job.store:  # its lease expires, and others take over
                beside = beside and not self.second.wait().startswith("end")
                maintain_until_done(project)
            else:  # it keeps its lock
                time.sleep(0.5)
            self.writer.send(signal.SIGCONT)
        told = self.writer.wait()
        assert not beside or self.second.wait().startswith("end")
        return told

    def close(self) -> None:
        """End the processes."""
        self.writer.close()
        self.second.close()


def change_after_release(project: Project, tmp_path: Path) -> Project:
    """A released project whose folder has changed since: a file more, one less, one edited."""
    folder = tmp_path / "repo"
    folder.mkdir()
    (folder / "sessions.py").write_text('def sign_session(key):\n    """Sign sessions."""\n    return key\n')
    (folder / "gone.py").write_text("def gone():\n    return sign_session(1)\n")
    (folder / "edited.py").write_text("def edited():\n    return 1\n")
    project.declare("main", "code", folder)
    project.refresh()
    (folder / "gone.py").unlink()
    (folder / "edited.py").write_text("def edited():\n    return 2\n")
    (folder / "added.py").write_text('def verify():\n    """Verify a session."""\n    return edited()\n')
    return project


def maintain_until_done(project: Project) -> None:
    """Maintenance that keeps no version for running queries, again until no lock is held by others."""
    options = MaintenanceOptions(grace_s=0.0)
    while maintain.refresh(project.lake, project.settings, options=options).skipped:
        time.sleep(0.2)


def build_clock(folder: Path) -> Path:
    """The library by which a process's clock can jump; skips without a C compiler, and fails in CI."""
    built, compiler = folder / "shifted_clock.so", shutil.which("cc")
    if compiler is None:
        if os.environ.get("CI"):
            raise AssertionError("there is no C compiler")
        pytest.skip("there is no C compiler")
    subprocess.run([compiler, "-shared", "-fPIC", "-O2", "-o", built, _CLOCK, "-ldl"], check=True)
    return built


def unlogged(project: Project) -> Any:
    """Settings by which a reader writes no table, and keeps no answer."""
    settings = project.settings
    logs = settings.logs.model_copy(update={"queries": False})
    cache = settings.query.cache.model_copy(update={"ttl_minutes": 0})
    query = settings.query.model_copy(update={"cache": cache})
    return settings.model_copy(update={"logs": logs, "query": query})


def answer(base: KnowledgeBase) -> Answer:
    """What a reader gets."""
    return [(each.citation.path, each.content) for each in base.search(QUESTION, limit=20).results]


def unreadable_versions(project: Project) -> list[str]:
    """The versions of all tables whose rows cannot be read, of those that are still listed."""
    root: Any = project.lake.root
    patterns = [] if isinstance(root, Path) else [f"{pattern}.lance" for pattern in ("*", "*/*", "*/*/*")]
    places = [each for pattern in patterns for each in root.glob(pattern) if (each / "_versions").is_dir()]
    if isinstance(root, Path):
        places = [each.parent for each in root.rglob("_versions")]
    assert len(places) > 5
    found: list[str] = []
    for place in sorted(places, key=str):
        open_at = lambda version=None, place=place: (  # noqa: E731
            lance.dataset(str(place), version=version)
            if isinstance(place, Path)
            else open_dataset(place, version)
        )
        for version in [each["version"] for each in open_at().versions()]:
            try:
                open_at(version).to_table()
            except (OSError, RuntimeError, ValueError) as error:
                found.append(f"{place} {version}: {str(error)[:200]}")
    return found

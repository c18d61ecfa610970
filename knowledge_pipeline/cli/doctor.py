"""`doctor`: look at everything that a first index, a search and a server need, a line each."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from knowledge_pipeline.cli.app import list_versions
from knowledge_pipeline.cli.exit_codes import FAILED, SUCCESS
from knowledge_pipeline.cli.session import Session, example
from knowledge_pipeline.errors import KnowledgeError

if TYPE_CHECKING:
    from knowledge_pipeline.config.settings import Settings


_GIB = 1 << 30
_MIN_FREE_BYTES = 2 * _GIB  # an index of a large repository, and room for compaction
_MIN_MEMORY_BYTES = 2 * _GIB  # what indexing 100,000 chunks takes
_DAGSTER_PORT = 3000


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One thing that was looked at."""

    subject: str
    state: Literal["ok", "warning", "failed"]
    message: str  # what was found, and what to do where that is not good


@example("""
    knowledge doctor
    knowledge doctor --json
""")
def doctor(session: Session) -> int:
    """Check what indexing and searching need here, and say what to do where something is missing.

    Looks at versions, git, memory, `knowledge.yaml` and its variables, the store and its disk, the embedding
    model, and ports. Changes nothing stored. Ends with 1 if something does not work.
    """
    rows = [asdict(diagnosis) for diagnosis in _examine(session)]
    session.screen.print_json(rows)
    session.screen.print_table(rows)
    return FAILED if any(row["state"] == "failed" for row in rows) else SUCCESS


def _examine(session: Session) -> Iterator[Diagnosis]:
    from knowledge_pipeline.cli.sources import list_organisations

    yield Diagnosis("versions", "ok", ", ".join(list_versions()))
    yield _check_git()
    yield _check_memory()
    try:
        settings = session.settings
    except KnowledgeError as error:
        yield Diagnosis("configuration", "failed", str(error))
        return
    yield Diagnosis("configuration", "ok", f"{session.config_path}, {len(settings.sources)} sources")
    for line in settings.unset_variables:
        yield Diagnosis("variables", "failed", line)
    if not settings.unset_variables:
        yield Diagnosis("variables", "ok", "every ${NAME} of the file is set")
    for row in list_organisations(settings):
        shown = f"{row['members']} of {row['listed']} members at {row['where']}, listed {row['listed_at']}"
        problem = row["problem"]
        state = "warning" if problem else "ok"
        yield Diagnosis(f"organisation {row['organisation']}", state, problem or shown)

    checks: dict[str, Callable[[], Diagnosis]] = {
        "store": lambda: _check_store(settings),
        "release": lambda: _check_release(session),
        "embedding model": lambda: _check_model(session),
    }
    for subject, check in checks.items():
        try:
            yield check()
        except KnowledgeError as error:
            yield Diagnosis(subject, "failed", str(error))
        except (OSError, RuntimeError, ValueError) as error:  # of Lance and of a disk; the others follow
            yield Diagnosis(subject, "failed", f"cannot be read ({type(error).__name__}): correct `store`")
    yield _check_port("port of the server", settings.serve.port, "set serve.port, or give --port")
    yield _check_port("port of Dagster", _DAGSTER_PORT, "give `dagster dev --port`")


def _check_git() -> Diagnosis:
    git = shutil.which("git")
    if git is None:
        return Diagnosis("git", "warning", "not found: install it to index repositories and their history")
    shown = subprocess.run([git, "--version"], capture_output=True, text=True, check=False)  # noqa: S603
    return Diagnosis("git", "ok", shown.stdout.strip() or git)


def _check_memory() -> Diagnosis:
    from knowledge_pipeline.embedding.parallel import count_usable_cores

    shown = f"cores: {count_usable_cores()}"
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):  # not every system says it
        return Diagnosis("machine", "ok", shown)
    shown += f", memory: {total / _GIB:.1f} GiB"
    if total < _MIN_MEMORY_BYTES:
        return Diagnosis("machine", "warning", f"{shown}: large repositories need 2 GiB")
    return Diagnosis("machine", "ok", shown)


def _check_store(settings: Settings) -> Diagnosis:
    store = settings.store
    if not isinstance(store, Path):
        return Diagnosis("store", "ok", f"{store} (its disk is not looked at)")
    if store.is_file():
        return Diagnosis("store", "failed", f"{store} is a file: set `store` to a folder")
    folder = next(path for path in (store, *store.parents) if path.is_dir())
    if not os.access(folder, os.W_OK):
        return Diagnosis("store", "failed", f"{folder} cannot be written: correct its owner, or set `store`")
    free = shutil.disk_usage(folder).free
    shown = f"{store}, {free / _GIB:.1f} GiB free"
    if free < _MIN_FREE_BYTES:
        return Diagnosis("store", "warning", f"{shown}: make room, or set `store` to another disk")
    return Diagnosis("store", "ok", shown)


def _check_release(session: Session) -> Diagnosis:
    from knowledge_pipeline.store.release import find_live_release

    release = find_live_release(session.lake)
    if release is None:
        return Diagnosis("release", "warning", "nothing is released yet: run `knowledge index`")
    return Diagnosis("release", "ok", f"release {release.release} is live ({release.rows} rows)")


def _check_model(session: Session) -> Diagnosis:
    from knowledge_pipeline.embedding.registry import describe_missing_prompts, open_embedder

    configured = session.settings.list_embeddings()
    shown: list[str] = []
    for embedder in map(open_embedder, configured):
        embedder.embed(["is the model there"])
        shown.append(f"{embedder.space.model}, {embedder.space.dimensions} dimensions")
    missing = [note for note in map(describe_missing_prompts, configured) if note]
    return Diagnosis("embedding model", "warning" if missing else "ok", "; ".join([*shown, *missing]))


def _check_port(subject: str, port: int, remedy: str) -> Diagnosis:
    try:
        with socket.socket() as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            tried.bind(("127.0.0.1", port))
    except OSError:
        message = f"{port} is taken, perhaps by a server that runs already: {remedy}"
        return Diagnosis(subject, "warning", message)
    return Diagnosis(subject, "ok", f"{port} is free")

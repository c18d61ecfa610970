"""`hooks install|remove|run`: git hooks that refresh what reads a local repository after each commit."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument

from knowledge_pipeline.cli.session import Dagster, Session, example
from knowledge_pipeline.errors import Busy, ConfigError, NotFound

if TYPE_CHECKING:
    from knowledge_pipeline.config.sources import SourceConfig


_LONGEST_REFRESH_S = 24 * 3600.0

RepositoryFolder = Annotated[
    Path | None,
    Argument(metavar="FOLDER", help="A folder in the repository.  [default: all that sources read]"),
]


@example("""
    knowledge hooks install
    knowledge hooks install ../shop --dagster
""")
def install(session: Session, folder: RepositoryFolder = None, dagster: Dagster = False) -> None:
    """Have git start a refresh after each commit, merge, rebase and checkout.

    The refresh runs in the background; its messages are in `.git/knowledge-hook.log`. What
    a hook does already stays.
    """
    from knowledge_pipeline.connectors.git.command import find_git_folder
    from knowledge_pipeline.connectors.git.remote_heads import find_hooks_folder

    repositories = _find_repositories(session, folder)
    for repository in repositories:
        # A hook runs in the work tree: Python must not import what lies there.
        environment = ["env", "PYTHONSAFEPATH=1"]
        if dagster and (home := os.environ.get("DAGSTER_HOME")):
            environment.append(f"DAGSTER_HOME={Path(home).absolute()}")
        program = [sys.executable, "-m", "knowledge_pipeline.cli", "hooks", "run", str(repository)]
        recorded = ["--dagster"] if dagster else []
        command = [*environment, *program, *recorded, "--config", str(session.config_path.absolute())]
        hooks, log = find_hooks_folder(repository), find_git_folder(repository) / "knowledge-hook.log"
        scripts = {hooks / hook: build_script(hooks / hook, command, log) for hook in HOOKS}
        for path, text in scripts.items():
            write_script(path, text)
        session.screen.print_text(f"{repository}: {len(HOOKS)} hooks in {hooks} refresh its sources")
    session.screen.print_json({"repositories": [str(repository) for repository in repositories]})


@example("""
    knowledge hooks remove
    knowledge hooks remove ../shop
""")
def remove(session: Session, folder: RepositoryFolder = None) -> None:
    """Take out of git's hooks what `hooks install` put there."""
    from knowledge_pipeline.connectors.git.remote_heads import find_hooks_folder

    counts: dict[str, int] = {}
    for repository in _find_repositories(session, folder):
        hooks = find_hooks_folder(repository)
        counts[str(repository)] = sum(remove_command(hooks / hook) for hook in HOOKS)
        session.screen.print_text(f"{repository}: {counts[str(repository)]} hooks removed")
    session.screen.print_json({"removed": counts})


@example("""
    knowledge hooks run ../shop
""")
def run(
    session: Session,
    folder: Annotated[Path, Argument(metavar="FOLDER", help="A folder in the repository.")],
    dagster: Dagster = False,
) -> int:
    """Refresh the sources that read a repository, as its hooks do.

    While one refresh of the repository runs, one more waits and takes in all later
    commits; others end at once.
    """
    from knowledge_pipeline.cli.refresh import run_refresh
    from knowledge_pipeline.connectors.git.command import find_git_folder
    from knowledge_pipeline.stages.context import RefreshOptions
    from knowledge_pipeline.store.locks import acquire_lock

    (repository,) = _find_repositories(session, folder)
    sources = _list_sources(session)[repository]
    name = f"hook-{sha256(str(session.config_path.absolute()).encode()).hexdigest()[:16]}"
    locks = find_git_folder(repository) / "knowledge-hook"
    with ExitStack() as waiting:
        try:
            waiting.enter_context(acquire_lock(locks, f"{name}-waiting", timeout_s=0))
        except Busy:
            session.screen.print_note("A refresh that waits takes this commit in")
            return 0
        with acquire_lock(locks, f"{name}-running", timeout_s=_LONGEST_REFRESH_S):
            waiting.close()
            return run_refresh(session, [source.id for source in sources], RefreshOptions(), dagster=dagster)


COMMANDS = (install, remove, run)

HOOKS = ("post-commit", "post-merge", "post-rewrite", "post-checkout")
"""After each of these HEAD may name another commit."""

_BEGIN, _END = "# knowledge: begin", "# knowledge: end"
_BLOCK = re.compile(rf"\n?{_BEGIN}\n[^\0]*?{_END}\n")
_SHELL = re.compile(r"#!\s*(?:/usr)?/bin/(?:env )?(?:ba|da|z|k)?sh\b")


def build_script(path: Path, command: Sequence[str], log: Path) -> str:
    """The text of a hook that also starts a command in the background; ConfigError for another script."""
    present = path.read_text("utf-8") if path.exists() else "#!/bin/sh\n"
    if not _SHELL.match(present):
        raise ConfigError(f"{path} is not a shell script: let it start `{shlex.join(command)}` itself")
    started = f"nohup {shlex.join(command)} >{shlex.quote(str(log))} 2>&1 </dev/null &"
    # Git names its repository and index to a hook, and would to every git that the command starts.
    lines = [_BEGIN, "(", "unset $(git rev-parse --local-env-vars)", started, ")", _END]
    return _BLOCK.sub("", present).rstrip("\n") + "\n" + "\n".join(lines) + "\n"


def write_script(path: Path, text: str) -> None:
    """Write a hook that git can start."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    path.chmod(path.stat().st_mode | 0o755)


def remove_command(path: Path) -> bool:
    """Take the lines out of a hook, and remove one that does nothing else; whether they were there."""
    present = path.read_text("utf-8") if path.exists() else ""
    rest = _BLOCK.sub("", present)
    if rest == present:
        return False
    if rest.partition("\n")[2].strip():  # more than the line that names the shell
        path.write_text(rest.rstrip("\n") + "\n", "utf-8")
    else:
        path.unlink()
    return True


def _find_repositories(session: Session, folder: Path | None) -> list[Path]:
    """The repository of a folder, or all of this machine that sources read by commits, if there are any."""
    from knowledge_pipeline.connectors.git.remote_heads import find_repository

    read = _list_sources(session)
    if folder is None:
        if not read:
            raise NotFound("no source reads a git repository on this machine by commits")
        return list(read)
    repository = find_repository(folder)
    if repository is None:
        raise NotFound(f"{folder} is in no git repository")
    if repository.resolve() not in read:
        raise NotFound(
            f"no source reads {repository} by commits: add one with `knowledge index --repo {repository}`"
        )
    return [repository.resolve()]


def _list_sources(session: Session) -> dict[Path, list[SourceConfig]]:
    from knowledge_pipeline.connectors.git.remote_heads import find_local_repository, group_by_watched_branch

    sources_by_repository: dict[Path, list[SourceConfig]] = {}
    for watch, sources in group_by_watched_branch(session.settings.sources).items():
        if (repository := find_local_repository(watch)) is not None:
            sources_by_repository.setdefault(repository, []).extend(sources)
    return sources_by_repository

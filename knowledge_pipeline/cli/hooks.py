"""`hooks install|remove|run`: git hooks that refresh what reads a local repository after each commit."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
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
    a hook does already stays, after it. Each hook is tried once: its own lines are not run then.
    """
    from knowledge_pipeline.connectors.git.command import find_git_folder
    from knowledge_pipeline.connectors.git.remote_heads import find_hooks_folder

    repositories, unverified = _find_repositories(session, folder), list[str]()
    for repository in repositories:
        # A hook runs in the work tree: Python must not import what lies there.
        environment = ["env", "PYTHONSAFEPATH=1"]
        if dagster and (home := os.environ.get("DAGSTER_HOME")):
            environment.append(f"DAGSTER_HOME={Path(home).absolute()}")
        program = [sys.executable, "-m", "knowledge_pipeline.cli", "hooks", "run", str(repository)]
        recorded = ["--dagster"] if dagster else []
        command = [*environment, *program, *recorded, "--config", str(session.config_path.absolute())]
        (started, hooks), log = (
            find_hooks_folder(repository),
            find_git_folder(repository) / "knowledge-hook.log",
        )
        scripts = {hooks / hook: build_script(hooks / hook, command, log) for hook in HOOKS}
        for path, text in scripts.items():
            write_script(path, text)
        problems = [problem for hook in HOOKS if (problem := find_hook_problem(started / hook, repository))]
        reached = len(HOOKS) - len(problems)
        session.screen.print_text(f"{repository}: {reached} hooks in {hooks} refresh its sources")
        for problem in problems:
            session.screen.print_note(f"Not verified: {problem}")
        unverified += problems
    session.screen.print_json(
        {"repositories": [str(repository) for repository in repositories], "unverified": unverified}
    )


@example("""
    knowledge hooks remove
    knowledge hooks remove ../shop
""")
def remove(session: Session, folder: RepositoryFolder = None) -> None:
    """Take out of git's hooks what `hooks install` put there."""
    from knowledge_pipeline.connectors.git.remote_heads import find_hooks_folder

    counts: dict[str, int] = {}
    for repository in _find_repositories(session, folder):
        _, hooks = find_hooks_folder(repository)
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
_BLOCK = re.compile(rf"{_BEGIN}\n[^\0]*?{_END}\n|\n{_BEGIN}\n[^\0]*?{_END}\Z")
_SHELL = re.compile(r"#!\s*\S*/(?:env\s+(?:-S\s+)?)?(?:ba|da|z|k)?sh\b")
_CHECK = "KNOWLEDGE_HOOK_CHECK"  # names a file; a hook only writes to it then


def build_script(path: Path, command: Sequence[str], log: Path) -> str:
    """The text of a hook that first starts a command in the background; ConfigError for another script."""
    present = _BLOCK.sub("", _read_script(path)) if path.exists() else "#!/bin/sh\n"
    is_shell = _SHELL.match(present) or (path.parent.name == ".husky" and not present.startswith("#!"))
    if not is_shell or "\0" in present:
        raise ConfigError(f"{path} is not a shell script: let it start `{shlex.join(command)}` itself")
    started = f"nohup {shlex.join(command)} >{shlex.quote(str(log))} 2>&1 </dev/null &"
    # Git names its repository and index to a hook, and would to every git that the command starts.
    check = f'[ -z "${{{_CHECK}-}}" ] || {{ echo reached >"${_CHECK}"; exit 0; }}'
    lines = [_BEGIN, check, "(", "unset $(git rev-parse --local-env-vars)", started, ")", _END]
    # First of all: what follows may end the script, by `exit` or `exec`.
    first, end, rest = present.partition("\n") if present.startswith("#!") else ("", "", present)
    block = "\n".join(lines)
    return f"{first}{end}{block}\n{rest}" if end or not first else f"{first}\n{block}"


def write_script(path: Path, text: str) -> None:
    """Write a hook that git can start; ConfigError where its folder is none."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode("utf-8", "surrogateescape"))
        path.chmod(path.stat().st_mode | 0o755)
    except OSError as error:
        raise ConfigError(
            f"the hook {path} cannot be written ({error.strerror}): correct core.hooksPath or its mode"
        ) from error


def find_hook_problem(path: Path, repository: Path) -> str:
    """Why a hook, as git starts it, does not reach our lines; "" where it does. Its own are not run."""
    with tempfile.TemporaryDirectory() as folder:
        mark = Path(folder) / "reached"
        variables = os.environ | {_CHECK: str(mark)}
        try:
            subprocess.run(  # noqa: S603 - the hook, without a shell
                [path], cwd=repository, env=variables, input=b"", capture_output=True, timeout=20, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"{path} cannot be run ({getattr(error, 'strerror', None) or 'it does not end'})"
        return "" if mark.exists() else f"{path} ends before it starts the refresh"


def _read_script(path: Path) -> str:
    return path.read_bytes().decode("utf-8", "surrogateescape")


def remove_command(path: Path) -> bool:
    """Take the lines out of a hook, and remove one that does nothing else; whether they were there."""
    present = _read_script(path) if path.is_file() else ""
    rest = _BLOCK.sub("", present)
    if rest == present:
        return False
    if rest.partition("\n")[2].strip() or not rest.startswith("#!"):  # more than what names the shell
        path.write_bytes(rest.encode("utf-8", "surrogateescape"))
    else:
        path.unlink()
    return True


def _find_repositories(session: Session, folder: Path | None) -> list[Path]:
    """The repository of a folder, or all of this machine that sources read by commits, if there are any."""
    from knowledge_pipeline.connectors.git.command import find_checkout

    read = _list_sources(session)
    if folder is None:
        if not read:
            raise NotFound("no source reads a git repository on this machine by commits")
        return list(read)
    repository = find_checkout(folder)
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

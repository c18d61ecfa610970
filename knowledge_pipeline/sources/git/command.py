"""Run git without a shell, without prompts, and without a repository's own programs.

Hooks, pagers and helpers of other transports are off, whether the environment or a repository's
configuration asks for them. Credentials travel in the environment as an HTTP header: not in
arguments, addresses or messages.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from knowledge_pipeline.errors import SourceRefused

LOCAL_TIMEOUT_S = 1800.0
_ALLOWED_VARIABLES = re.compile(
    r"^GIT_(?:SSH|SSH_COMMAND|SSH_VARIANT|SSL_\w+|PROXY_\w+|CONFIG_(?:GLOBAL|SYSTEM|NOSYSTEM)|EXEC_PATH)$"
)
_GLOBAL_OPTIONS = (
    "--no-pager",
    "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "core.quotePath=false",
    "-c", "log.showSignature=false", "-c", "gc.autoDetach=false", "-c", "maintenance.autoDetach=false",
    "-c", "http.lowSpeedLimit=1000", "-c", "http.lowSpeedTime=60",
)  # fmt: skip


class GitError(Exception):
    """A git command ended with an error; never leaves `sources`."""

    def __init__(self, stderr: str, *, timed_out: bool = False) -> None:
        super().__init__(stderr)
        self.stderr = stderr
        self.timed_out = timed_out


def build_environment(extra_environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of every git command; it allows no transport unless `extra_environment` does."""
    allowed = (name for name in os.environ if not name.startswith("GIT_") or _ALLOWED_VARIABLES.match(name))
    kept = {name: os.environ[name] for name in allowed}
    kept.update(LC_ALL="C", GIT_TERMINAL_PROMPT="0", GIT_ASKPASS="", SSH_ASKPASS="", GIT_OPTIONAL_LOCKS="0")
    kept.update(GIT_NO_REPLACE_OBJECTS="1", GIT_ALLOW_PROTOCOL="")
    return kept | dict(extra_environment or {})


def run_git(
    arguments: Sequence[str],
    *,
    repository: Path | None,
    extra_environment: Mapping[str, str] | None = None,
    stdin: bytes = b"",
    timeout_s: float = LOCAL_TIMEOUT_S,
) -> bytes:
    """The output of one git command.

    Raises:
        GitError: it ended with an error, or ran longer than `timeout_s`.
        SourceRefused: git is not installed.
    """
    with _start_git(arguments, repository, extra_environment) as child:
        try:
            output, errors = child.communicate(stdin, timeout=timeout_s)
        except subprocess.TimeoutExpired as error:
            raise GitError(f"no end after {timeout_s:g} seconds", timed_out=True) from error
        if child.returncode != 0:
            raise GitError(errors.decode("utf-8", "replace"))
        return output


def resolve_commit(name: str, repository: Path, *, timeout_s: float = LOCAL_TIMEOUT_S) -> str:
    """The id of the commit that a name leads to; GitError where there is none."""
    arguments = ["rev-parse", "--verify", "--quiet", f"{name}^{{commit}}"]
    return run_git(arguments, repository=repository, timeout_s=timeout_s).decode("ascii").strip()


def git_folder_of(checkout: Path) -> Path:
    """The folder that git reads a checkout by; the folder itself for a bare repository."""
    inside = checkout / ".git"
    return inside if inside.exists() else checkout


def stream_git(arguments: Sequence[str], *, repository: Path) -> Iterator[bytes]:
    """The NUL-terminated fields of a git command's output, as they come; errors as `run_git`.

    An error is raised after the last field: what was yielded before it may be incomplete.
    """
    with tempfile.TemporaryFile() as errors, _start_git(arguments, repository, None, errors=errors) as child:
        assert child.stdout is not None and child.stdin is not None
        child.stdin.close()
        watchdog = threading.Timer(LOCAL_TIMEOUT_S, _kill_process_group, (child,))
        watchdog.start()
        try:
            rest = b""
            while block := child.stdout.read(1 << 16):
                *whole, rest = (rest + block).split(b"\0")
                yield from whole
            if rest:
                yield rest
            returncode = child.wait()
        finally:
            watchdog.cancel()
        if returncode != 0:
            errors.seek(0)
            raise GitError(errors.read().decode("utf-8", "replace"), timed_out=returncode < 0)


def build_command(arguments: Sequence[str], repository: Path | None) -> list[str]:
    """The whole argument list of a git command."""
    where = [] if repository is None else [f"--git-dir={repository}"]
    return ["git", *_GLOBAL_OPTIONS, *where, *arguments]


@contextmanager
def _start_git(
    arguments: Sequence[str],
    repository: Path | None,
    extra_environment: Mapping[str, str] | None,
    errors: int | IO[bytes] = subprocess.PIPE,
):
    """A running git in its own session, without a terminal, so that all its processes end together."""
    try:
        child = subprocess.Popen(  # noqa: S603 - a list, no shell
            build_command(arguments, repository),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=build_environment(extra_environment),
            start_new_session=True,
        )
    except FileNotFoundError as error:
        raise SourceRefused("git is not installed, or not on PATH: install it") from error
    with child:
        try:
            yield child
        finally:
            if child.poll() is None:
                _kill_process_group(child)


def _kill_process_group(child: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)

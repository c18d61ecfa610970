"""Runs git, without a shell, without prompts, and without a repository's own programs.

Hooks, pagers and helpers of other transports are off, whether the environment or a repository's
configuration asks for them. Credentials travel in the environment as an HTTP header: not in arguments,
addresses or messages.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
import threading
from base64 import b64encode
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import IO
from urllib.parse import unquote, urlsplit

from knowledge_pipeline.child_process import ChildProcess
from knowledge_pipeline.config.connections import (
    GitConnection,
    GithubConnection,
    WikiConnection,
    strip_credentials,
)
from knowledge_pipeline.config.model import UnsetSecret
from knowledge_pipeline.connectors.base import decode_path
from knowledge_pipeline.errors import ConfigError, KnowledgeError, SourceRefused, SourceUnavailable
from knowledge_pipeline.extraction.text_decoding import decode_bytes

LOCAL_TIMEOUT_S = 1800.0
FETCH_TIMEOUT_S = 3600.0
_ALLOWED_VARIABLES = re.compile(
    r"^GIT_(?:SSH|SSH_COMMAND|SSH_VARIANT|SSL_\w+|PROXY_\w+|CONFIG_(?:GLOBAL|SYSTEM|NOSYSTEM)|EXEC_PATH)$"
)
_GLOBAL_OPTIONS = (
    "--no-pager",
    "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "core.quotePath=false",
    "-c", "log.showSignature=false", "-c", "gc.autoDetach=false", "-c", "maintenance.autoDetach=false",
    "-c", "http.lowSpeedLimit=1000", "-c", "http.lowSpeedTime=60",
)  # fmt: skip

_ALLOWED_PROTOCOLS = "file:git:http:https:ssh"
_WIKI_REMEDY = (
    "a wiki is there once its first page is written: write one, correct the connection and its token, or "
    "remove connection.wiki (nothing is deleted meanwhile)"
)
_HTTP_STATUS = re.compile(r"returned error: (\d{3})")
_TRANSIENT_CLIENT_ERRORS = frozenset({"408", "425", "429"})
_TRANSIENT_FAILURE = re.compile(
    r"could not resolve|temporary failure|connection (?:refused|reset|timed out|closed)|timed out|"
    r"(?:couldn't|failed to|unable to) connect|network is unreachable|no route to host|early eof|rpc failed|"
    r"unexpected disconnect|hung up|too slow|transfer closed|empty reply|broken pipe|no space left|"
    r"cannot lock ref|unable to create .*\.lock",
    re.IGNORECASE,
)
_REFUSED_CREDENTIALS = re.compile(
    r"authentication failed|could not read (?:username|password)", re.IGNORECASE
)
_PERMANENT_FAILURE = re.compile(
    r"authentication failed|could not read (?:username|password)|permission denied|access denied|denied to|"
    r"not found|does not appear to be a git repository|does not exist|not a git repository|no such file|"
    r"host key verification failed|certificate|dubious ownership|not allowed|unable to find remote helper|"
    r"is this a git repository|protocol .* is not supported|invalid|bad port|not exported",
    re.IGNORECASE,
)


class GitError(Exception):
    """A git command ended with an error; `to_source_error` says what it means for a source."""

    def __init__(self, stderr: str, *, timed_out: bool = False) -> None:
        super().__init__(stderr)
        self.stderr = stderr
        self.timed_out = timed_out


def build_environment(extra_environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of every git command; it allows no transport unless `extra_environment` does."""
    allowed = (name for name in os.environ if not name.startswith("GIT_") or _ALLOWED_VARIABLES.match(name))
    kept = {name: os.environ[name] for name in allowed}
    kept.update(LC_ALL="C", GIT_TERMINAL_PROMPT="0", GIT_ASKPASS="", SSH_ASKPASS="", GIT_OPTIONAL_LOCKS="0")
    kept.update(GIT_NO_REPLACE_OBJECTS="1", GIT_ALLOW_PROTOCOL="", GIT_NO_LAZY_FETCH="1")
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

    GitError where it ended with an error, or ran too long; SourceRefused where git is not installed.
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


def read_head(repository: Path, *, timeout_s: float = LOCAL_TIMEOUT_S) -> str | None:
    """The commit that HEAD names; None before the first one. GitError: the repository cannot be read."""
    try:
        return resolve_commit("HEAD", repository, timeout_s=timeout_s)
    except GitError as failure:
        if failure.stderr.strip() or failure.timed_out:
            raise
    try:
        run_git(["rev-parse", "--verify", "--quiet", "HEAD"], repository=repository, timeout_s=timeout_s)
    except GitError:
        return None
    raise GitError("its HEAD leads to no commit")


def git_folder_of(checkout: Path) -> Path:
    """The folder that git reads a checkout by; the folder itself for a bare repository."""
    inside = checkout / ".git"
    return inside if inside.exists() else checkout


def find_checkout(folder: Path) -> Path | None:
    """The repository that a folder lies in: the folder with `.git`, or a bare one."""
    folder = folder.expanduser().absolute()
    if (folder / "HEAD").is_file() and (folder / "objects").is_dir():
        return folder
    return next((parent for parent in (folder, *folder.parents) if (parent / ".git").exists()), None)


def find_repository(folder: Path) -> tuple[Path, str] | None:
    """The folder that git reads the checkout around a folder by, and where that lies in it: "src/"."""
    folder = folder.expanduser().resolve()
    if (root := find_checkout(folder)) is None:
        return None
    prefix = "" if root == folder else f"{folder.relative_to(root).as_posix()}/"
    return git_folder_of(root), prefix


def list_tracked_ignored(folder: Path) -> frozenset[str]:
    """What git tracks although its rules name it: paths in a folder, and ("src/") of the folders around them.

    Empty where git cannot tell.
    """
    folder = folder.expanduser().resolve()
    if (located := find_repository(folder)) is None:
        return frozenset()
    repository, prefix = located
    root = str(folder).removesuffix(f"/{prefix.rstrip('/')}") if prefix else str(folder)
    listing = ["ls-files", "-z", "--cached", "--ignored", "--exclude-standard"]
    try:  # git names paths from where it runs
        output = run_git(["-C", str(folder), f"--work-tree={root}", *listing], repository=repository)
    except (GitError, SourceRefused):
        return frozenset()
    paths = {decode_path(path) for path in output.split(b"\0") if path}
    return frozenset(paths.union(f"{parent}/" for path in paths for parent in PurePosixPath(path).parents))


def list_remotes(repository: Path) -> list[GitConnection]:
    """Where a repository was cloned from, and what else it fetches from; none where git cannot tell."""
    try:
        output = run_git(["config", "-z", "--get-regexp", r"^remote\..*\.url$"], repository=repository)
    except (GitError, SourceRefused):
        return []
    urls = (entry.partition("\n")[2] for entry in output.decode("utf-8", "replace").split("\0"))
    return [GitConnection.model_construct(type="git", url=url) for url in urls if url]


def find_git_folder(repository: Path) -> Path:
    """Where git keeps the repository around a folder, once for all of its worktrees.

    SourceRefused where it cannot be read.
    """
    arguments = ["rev-parse", "--path-format=absolute", "--git-common-dir"]
    try:
        output = run_git(arguments, repository=(find_repository(repository) or (repository,))[0])
    except GitError as failure:
        raise SourceRefused(f"the repository in {repository} cannot be read: repair it") from failure
    return Path(output.decode("utf-8", "surrogateescape").rstrip("\n"))


def find_common_folder(checkout: Path) -> Path:
    """The same without asking git: where the working trees of a repository meet. Raises `OSError`."""
    folder = git_folder_of(checkout)
    if folder.is_file():  # of a further working tree: "gitdir: PATH"
        text = folder.read_text("utf-8", "surrogateescape")
        folder = (checkout / text.partition("gitdir:")[2].strip()).resolve()
    common = folder / "commondir"
    return (
        folder / common.read_text("utf-8", "surrogateescape").strip() if common.is_file() else folder
    ).resolve()


def limit_to(prefix: str, *options: str) -> list[str]:
    """The last arguments of a command that is about a folder, with options that take it; "" is for all."""
    return [*(f"{it}={prefix}" for it in options), "--", f":(literal){prefix}"] if prefix else ["--"]


def read_grafts(repository: Path) -> frozenset[str]:
    """The commits whose parents a shallow clone lacks, by the folder that all of its worktrees share."""
    try:
        return frozenset((repository / "shallow").read_text("ascii").split())
    except FileNotFoundError:
        return frozenset()


def stream_git(arguments: Sequence[str], *, repository: Path, stdin: bytes = b"") -> Generator[bytes]:
    """The NUL-terminated fields of a git command's output, as they come; errors as `run_git`.

    An error is raised after the last field: what was yielded before it may be incomplete.
    """
    with (
        tempfile.TemporaryFile() as errors,
        tempfile.TemporaryFile() as requests,  # a pipe would be full before anything is read
    ):
        requests.write(stdin)
        requests.seek(0)
        yield from _stream_fields(arguments, repository, requests, errors)


def _stream_fields(
    arguments: Sequence[str], repository: Path, requests: IO[bytes], errors: IO[bytes]
) -> Iterator[bytes]:
    with _start_git(arguments, repository, None, errors=errors, stdin=requests) as child:
        assert child.stdout is not None
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
    stdin: int | IO[bytes] = subprocess.PIPE,
):
    """A running git in its own session, without a terminal, so that all its processes end together."""
    try:
        child = subprocess.Popen(  # noqa: S603 - a list, no shell
            build_command(arguments, repository),
            stdin=stdin,
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


@dataclass(frozen=True, slots=True)
class Remote:
    """An address that git understands, free of passwords, and who reads it."""

    url: str
    credentials: str | None = field(default=None, repr=False)  # "user:password", for HTTP
    app: GithubConnection | None = field(default=None, repr=False)  # whose App reads it, in their place
    is_wiki: bool = False
    problem: str | None = None  # why git cannot ask it now: only its address is known

    def build_environment(self) -> dict[str, str]:
        """What one command of git needs; an App has a new token every hour. ConfigError: it is not known."""
        if self.problem:
            raise ConfigError(self.problem)
        credentials = self.credentials
        if self.app:
            # Imported here: it brings `requests`, which git does without.
            from knowledge_pipeline.connectors.github.client import GithubClient

            with closing(GithubClient(self.app)) as client:
                credentials = f"x-access-token:{client.get_installation_token()}"
        allowed = {"GIT_ALLOW_PROTOCOL": _ALLOWED_PROTOCOLS}
        if credentials is None:
            return allowed
        parts = urlsplit(self.url)
        return allowed | {
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": f"http.{parts.scheme}://{parts.netloc}/.extraHeader",
            "GIT_CONFIG_VALUE_0": f"Authorization: Basic {b64encode(credentials.encode()).decode('ascii')}",
        }

    def forget_credentials(self) -> None:
        """Ask for a new token of an App the next time: git was refused with the one it had."""
        if self.app and self.app.app:
            from knowledge_pipeline.connectors.github.client import forget_installation_token

            forget_installation_token(self.app.url, self.app.app, self.app.repository.partition("/")[0])


def build_remote(connection: GitConnection) -> Remote:
    """The checked address; ConfigError where it would run a program, or send a token unencrypted."""
    try:
        address = connection.address
    except ValueError as error:
        raise ConfigError(
            f"connection.url {strip_credentials(connection.url)!r} is not allowed: "
            f"use https://, ssh://, git://, file://, user@host:path or a path ({error})"
        ) from None
    if "://" not in address.url:
        return Remote(str(Path(address.path).expanduser().absolute()) if address.is_local else address.url)
    problem = connection.token.problem if isinstance(connection.token, UnsetSecret) else None
    token = connection.token.get_secret_value() if connection.token and not problem else None
    secret = f"x-access-token:{token}" if token else None
    if address.user and not secret:
        user, _, password = address.user.partition(":")
        secret = f"{unquote(user)}:{unquote(password)}"
    is_encrypted = address.url.startswith("https://") or address.host in {"localhost", "127.0.0.1", "::1"}
    if (secret or connection.app) and not is_encrypted:
        raise ConfigError(
            f"connection.url {address.url!r} is not https, so that its token would be sent unencrypted: "
            "use https"
        )
    app = connection.to_github() if connection.app else None
    is_wiki = isinstance(connection, WikiConnection)
    return Remote(address.url, secret, app, is_wiki, problem)


def to_source_error(remote: Remote, failure: GitError) -> KnowledgeError:
    """The error for a failed fetch: whether a retry may help, and what git reported."""
    message = strip_credentials(failure.stderr.replace(remote.url, "the repository"))
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"(?:fatal|error|remote|ssh):", line, re.I)] or lines
    repository, reason = f"git repository {remote.url}", "; ".join(errors[:3])[:500] or "git said nothing"
    if "promisor remote" in message:
        problem = "is a partial clone that lacks some of its objects"
        return SourceRefused(f"{repository} {problem}: give the address that it was cloned from")
    if _is_permanent(message) and not failure.timed_out:
        identity = "that connection.app is installed for it" if remote.app else "token"
        if _REFUSED_CREDENTIALS.search(message):
            remote.forget_credentials()
        remedy = _WIKI_REMEDY if remote.is_wiki else f"check connection.url and {identity}"
        return SourceRefused(f"{repository} refuses us or does not exist ({reason}): {remedy}")
    return SourceUnavailable(f"{repository} did not answer as it should ({reason}): try again later")


def may_pass(failure: GitError) -> bool:
    """Whether the same fetch may succeed a moment later: the server is busy or down, or the network is."""
    return not failure.timed_out and _is_permanent(failure.stderr) is False


def _is_permanent(message: str) -> bool | None:
    """Whether a retry cannot help; None where the message does not tell."""
    if status := _HTTP_STATUS.search(message):
        is_passing = status[1] in _TRANSIENT_CLIENT_ERRORS or status[1].startswith("5")
        return False if is_passing else status[1].startswith("4") or None
    if _TRANSIENT_FAILURE.search(message):
        return False
    return True if _PERMANENT_FAILURE.search(message) else None


@dataclass(frozen=True, slots=True)
class CommitSummary:
    """What a commit says of itself; no address."""

    parents: tuple[str, ...]  # ids, in order
    author: str | None
    committed: datetime | None
    message: str  # without NUL
    note: str = ""  # on bytes of the message that are not valid


class ObjectReader(ChildProcess):
    """Reads objects through one lasting `git cat-file`."""

    def __init__(self, repository: Path) -> None:
        command = build_command(["cat-file", "--batch"], repository)
        super().__init__(command, build_environment(), own_session=True)

    def read(self, object_id: str) -> bytes:
        """The content of one object; GitError where the repository does not have it, or cannot read it."""
        with self._lock:
            child = self._ensure_started()
            assert child.stdin is not None and child.stdout is not None
            try:
                child.stdin.write(f"{object_id}\n".encode("ascii"))
                child.stdin.flush()
                header = child.stdout.readline().split()
                size_bytes = int(header[2]) if len(header) == 3 else -1
                content = child.stdout.read(size_bytes + 1)[:-1] if size_bytes >= 0 else b""
            except BrokenPipeError:
                size_bytes, content = -1, b""
            if size_bytes < 0 or len(content) != size_bytes:
                self._stop()
                raise GitError(f"object {object_id} is missing or cannot be read")
            return content


def parse_commit(raw: bytes, encoding: str | None = None) -> CommitSummary:
    """A commit from its object; `encoding` is that of messages which declare none and are not UTF-8.

    Format: https://git-scm.com/docs/git-hash-object, "commit" objects: header lines, an
    empty line, the message.
    """
    header, _, message = raw.partition(b"\n\n")
    split_lines = (line.partition(b" ") for line in header.split(b"\n"))
    lines = [(name, value) for name, _, value in split_lines]
    fields = dict(reversed(lines))  # the first of a name counts
    label = fields.get(b"encoding", b"").decode("ascii", "replace") or encoding
    text, note = decode_bytes(message, label)
    words = fields.get(b"committer", b"").rpartition(b">")[2].split()
    return CommitSummary(
        tuple(value.decode("ascii") for name, value in lines if name == b"parent"),
        decode_bytes(fields.get(b"author", b"").partition(b" <")[0], label).text.strip() or None,
        parse_timestamp(words[0]) if words else None,
        text.replace("\0", "").strip(),
        note,
    )


def parse_timestamp(seconds: bytes | str) -> datetime | None:
    """A time from seconds since 1970, as git has it; None for one out of range."""
    try:
        return datetime.fromtimestamp(int(seconds), UTC)
    except (ValueError, OverflowError, OSError):
        return None

"""Objects of a repository by id, and what a commit object says."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from knowledge_pipeline.sources.child_process import ChildProcess
from knowledge_pipeline.sources.git.command import GitError, build_command, build_environment


@dataclass(frozen=True, slots=True)
class Signature:
    """Who wrote a commit and when it was committed; no address."""

    author: str | None
    committed: datetime | None


class ObjectReader(ChildProcess):
    """Reads objects through one lasting `git cat-file`."""

    def __init__(self, repository: Path) -> None:
        command = build_command(["cat-file", "--batch"], repository)
        super().__init__(command, build_environment(), own_session=True)

    def read(self, object_id: str) -> bytes:
        """The content of one object.

        Raises:
            GitError: the repository does not have it, or cannot read it.
        """
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


def parse_signature(commit: bytes) -> Signature:
    """Author's name and time of commit from a commit object.

    Format: https://git-scm.com/docs/git-hash-object, "commit" objects: header lines, an
    empty line, the message.
    """
    fields = _parse_header(commit)
    name = fields.get(b"author", b"").partition(b" <")[0]
    words = fields.get(b"committer", b"").rpartition(b">")[2].split()
    return Signature(_decode(name, fields).strip() or None, parse_timestamp(words[0]) if words else None)


def parse_message(commit: bytes) -> str:
    """The message from a commit object, without NUL."""
    message = _decode(commit.partition(b"\n\n")[2], _parse_header(commit))
    return message.replace("\0", "").replace("\r\n", "\n").strip()


def parse_parents(commit: bytes) -> tuple[str, ...]:
    """Ids of a commit object's parents, in order."""
    lines = commit.partition(b"\n\n")[0].split(b"\n")
    return tuple(line[7:].decode("ascii") for line in lines if line.startswith(b"parent "))


def _parse_header(commit: bytes) -> dict[bytes, bytes]:
    fields: dict[bytes, bytes] = {}
    for line in commit.partition(b"\n\n")[0].split(b"\n"):
        name, _, value = line.partition(b" ")
        fields.setdefault(name, value)
    return fields


def _decode(text: bytes, fields: dict[bytes, bytes]) -> str:
    try:
        return text.decode(fields.get(b"encoding", b"utf-8").decode("ascii", "replace"), "replace")
    except LookupError:
        return text.decode("utf-8", "replace")


def parse_timestamp(seconds: bytes | str) -> datetime | None:
    """A time from seconds since 1970, as git has it; None for one out of range."""
    try:
        return datetime.fromtimestamp(int(seconds), UTC)
    except (ValueError, OverflowError, OSError):
        return None

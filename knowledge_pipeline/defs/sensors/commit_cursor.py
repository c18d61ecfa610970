"""What the sensor `new_commits` remembers between two ticks: JSON that a person can read and correct.

Dagster keeps a copy with every tick, so it is kept small: the beginnings of commits, and
of a repository only what differs from tick to tick.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from zlib import crc32

import dagster as dg

from knowledge_pipeline.sources.git.remote_heads import WatchedBranch

_COMMIT_CHARS = 16  # characters of a commit, enough to tell two of one branch apart
_FAILURES_BEFORE_PAUSE = 2  # failures in a row after which a repository is asked less often
_FIRST_PAUSE_S = 60
_MAX_PAUSE_S = 600
_TICKS_BETWEEN_LISTINGS = 20
HEAD = "HEAD"


@dataclass(slots=True)
class CommitCursor:
    """Where repositories stood at the last tick, by their names."""

    tick: int = 0
    stood: dict[str, dict[str, str | None]] = field(default_factory=dict[str, dict[str, str | None]])
    """Commit of each branch, HEAD for none; null: the branch was gone."""
    heads: dict[str, str] = field(default_factory=dict[str, str])
    """The branch that HEAD names."""
    failing: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    """Failures in a row, and when to ask again, in seconds since 1970."""
    next: str = ""
    """The repository to begin with, where there was no time for all."""

    @classmethod
    def from_json(cls, text: str | None) -> "CommitCursor":
        """The cursor of the last tick; an empty one where there is none.

        Raises:
            ValueError: it is not one that `written` gave.
        """
        if not text:
            return cls()
        try:
            held = json.loads(text)
            return cls(
                tick=int(held["tick"]),
                stood={str(name): dict(branches) for name, branches in held["stood"].items()},
                heads=dict(held["heads"]),
                failing={
                    str(name): (int(count), int(when)) for name, (count, when) in held["failing"].items()
                },
                next=str(held["next"]),
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"no cursor of this sensor: {error!r}") from error

    def to_json(self) -> str:
        """As JSON."""
        return json.dumps(asdict(self), separators=(",", ":"))

    def retain_only(self, watches: Iterable[WatchedBranch]) -> None:
        """Drop what is no longer configured."""
        kept: dict[str, set[str]] = {}
        for what in watches:
            kept.setdefault(what.repository, set()).add(what.branch or HEAD)
        self.stood = {
            name: {branch: commit for branch, commit in branches.items() if branch in kept[name]}
            for name, branches in self.stood.items()
            if name in kept
        }
        self.heads = {name: branch for name, branch in self.heads.items() if name in kept}
        self.failing = {name: failed for name, failed in self.failing.items() if name in kept}

    def has_seen(self, watched_branch: WatchedBranch) -> bool:
        """Whether a branch was looked at before, be it that it was gone."""
        return (watched_branch.branch or HEAD) in self.stood.get(watched_branch.repository, {})

    def has_moved(self, watched_branch: WatchedBranch, commit: str | None) -> bool:
        """Whether a branch stands elsewhere than at the last look."""
        stood = self.stood.get(watched_branch.repository, {}).get(watched_branch.branch or HEAD)
        return stood != (commit[:_COMMIT_CHARS] if commit else None)

    def record_commit(self, watched_branch: WatchedBranch, commit: str | None) -> None:
        """Remember where a branch stands."""
        branches = self.stood.setdefault(watched_branch.repository, {})
        branches[watched_branch.branch or HEAD] = commit[:_COMMIT_CHARS] if commit else None

    def forget(self, watched_branch: WatchedBranch) -> None:
        """Let a branch count as never looked at."""
        branches = self.stood.get(watched_branch.repository, {})
        branches.pop(watched_branch.branch or HEAD, None)
        if not branches:
            self.stood.pop(watched_branch.repository, None)

    def record_answer(self, name: str, head_branch: str | None) -> None:
        """Remember that a repository answered, and what its HEAD names."""
        self.failing.pop(name, None)
        if head_branch is not None:
            self.heads[name] = head_branch

    def record_failure(self, name: str, now_s: float) -> None:
        """Remember that a repository did not answer; the more often, the later it is asked again."""
        count = self.failing.get(name, (0, 0))[0] + 1
        beyond = count - _FAILURES_BEFORE_PAUSE - 1
        pause_s = min(_MAX_PAUSE_S, _FIRST_PAUSE_S * 2 ** min(beyond, 10)) if beyond >= 0 else 0
        self.failing[name] = (count, int(now_s + pause_s))

    def list_due_repositories(self, names: Iterable[str], now_s: float) -> list[str]:
        """The repositories to ask now, first those that there was no time for at the last tick."""
        due = [name for name in sorted(names) if self.failing.get(name, (0, 0))[1] <= now_s]
        return [name for name in due if name >= self.next] + [name for name in due if name < self.next]

    def known_head(self, name: str) -> str | None:
        """The branch that HEAD names; now and then None, so that it is looked at again."""
        if (self.tick + crc32(name.encode())) % _TICKS_BETWEEN_LISTINGS == 0:
            return None
        return self.heads.get(name)


def load_cursor(context: dg.SensorEvaluationContext) -> CommitCursor:
    """The cursor for the tick that begins; one that cannot be read means that nothing was seen yet."""
    try:
        cursor = CommitCursor.from_json(context.cursor)
    except ValueError as error:
        context.log.warning(f"the cursor is dropped, and every repository counts as new: {error}")
        cursor = CommitCursor()
    cursor.tick += 1
    return cursor

"""What the sensor `new_commits` remembers between two ticks: JSON that a person can read and correct.

Dagster stores it with every tick, so it is small: the beginnings of commits, and of a repository only what
changes from tick to tick.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from zlib import crc32

import dagster as dg

from knowledge_pipeline.defs.sensors.host_pace import HostState, find_host, group_by_host, is_due
from knowledge_pipeline.sources.git.remote_heads import WatchedBranch

_COMMIT_CHARS = 16  # of a commit's hash
_FAILURES_BEFORE_PAUSE = 2  # in a row; after more, a repository is polled less often
_FIRST_PAUSE_S = 60
_MAX_PAUSE_S = 600
_LISTING_INTERVAL_S = 600
HEAD = "HEAD"


@dataclass(slots=True)
class CommitCursor:
    """The heads of repositories at the last tick, by the repositories' names."""

    tick: int = 0
    stood: dict[str, dict[str, str | None]] = field(default_factory=dict[str, dict[str, str | None]])
    """Commit of each branch, by `_format_branches`; null: the branch was gone."""
    heads: dict[str, str] = field(default_factory=dict[str, str])
    """The branch that HEAD names."""
    failing: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    """Failures in a row, and when to poll again, in seconds since 1970."""
    next: str = ""
    """The repository to begin with, where there was no time for all."""
    hosts: dict[str, HostState] = field(default_factory=dict[str, HostState])
    """When each host was last asked."""

    @classmethod
    def from_json(cls, text: str | None) -> "CommitCursor":
        """The cursor of the last tick; an empty one where there is none.

        Raises:
            ValueError: `to_json` did not write it.
        """
        if not text:
            return cls()
        try:
            stored = json.loads(text)
            return cls(
                tick=int(stored["tick"]),
                stood={str(name): dict(branches) for name, branches in stored["stood"].items()},
                heads=dict(stored["heads"]),
                failing={str(name): (int(count), int(at)) for name, (count, at) in stored["failing"].items()},
                next=str(stored["next"]),
                hosts={str(host): (at, int(count)) for host, (at, count) in stored.get("hosts", {}).items()},
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"not a cursor of this sensor: {error!r}") from error

    def to_json(self) -> str:
        """As JSON."""
        return json.dumps(asdict(self), separators=(",", ":"))

    def retain_only(self, watches: Iterable[WatchedBranch]) -> None:
        """Drop what is no longer configured."""
        kept: dict[str, set[str]] = {}
        for watch in watches:
            kept.setdefault(watch.repository, set()).add(_format_branches(watch))
        self.stood = {
            name: {branch: commit for branch, commit in branches.items() if branch in kept[name]}
            for name, branches in self.stood.items()
            if name in kept
        }
        self.heads = {name: branch for name, branch in self.heads.items() if name in kept}
        self.failing = {name: failed for name, failed in self.failing.items() if name in kept}
        hosts = group_by_host(kept)
        self.hosts = {host: state for host, state in self.hosts.items() if host in hosts}

    def has_seen(self, watch: WatchedBranch) -> bool:
        """Whether a branch was polled before, even if it was gone."""
        return _format_branches(watch) in self.stood.get(watch.repository, {})

    def has_moved(self, watch: WatchedBranch, commit: str | None) -> bool:
        """Whether a branch has another commit than at the last tick."""
        last = self.stood.get(watch.repository, {}).get(_format_branches(watch))
        return last != (commit[:_COMMIT_CHARS] if commit else None)

    def record_commit(self, watch: WatchedBranch, commit: str | None) -> None:
        """Remember the commit of a branch."""
        branches = self.stood.setdefault(watch.repository, {})
        branches[_format_branches(watch)] = commit[:_COMMIT_CHARS] if commit else None

    def forget(self, watch: WatchedBranch) -> None:
        """Treat a branch as never polled."""
        branches = self.stood.get(watch.repository, {})
        branches.pop(_format_branches(watch), None)
        if not branches:
            self.stood.pop(watch.repository, None)

    def record_answer(self, name: str, head_branch: str | None) -> None:
        """Remember that a repository answered, and what its HEAD names."""
        self.failing.pop(name, None)
        if head_branch is not None:
            self.heads[name] = head_branch

    def record_failure(self, name: str, now_s: float) -> None:
        """Remember that a repository did not answer; each further failure doubles the pause."""
        count = self.failing.get(name, (0, 0))[0] + 1
        beyond = count - _FAILURES_BEFORE_PAUSE - 1
        pause_s = min(_MAX_PAUSE_S, _FIRST_PAUSE_S * 2 ** min(beyond, 10)) if beyond >= 0 else 0
        self.failing[name] = (count, int(now_s + pause_s))

    def list_due_repositories(self, names: Iterable[str], now_s: float) -> list[str]:
        """The repositories to poll now, first those that the last tick had no time for."""
        by_host = group_by_host(sorted(names)).items()
        asked = [name for host, mine in by_host if self._is_host_due(host, len(mine), now_s) for name in mine]
        due = sorted(name for name in asked if self.failing.get(name, (0, 0))[1] <= now_s)
        return [name for name in due if name >= self.next] + [name for name in due if name < self.next]

    def _is_host_due(self, host: str, repositories: int, now_s: float) -> bool:
        return is_due(host, repositories, self.hosts.get(host), now_s)

    def known_head(self, name: str, now_s: float) -> str | None:
        """The branch that HEAD names; None every ten minutes, so that it is looked up again.

        Each repository has its own moment, so that they are not all looked up in one tick.
        """
        moment = crc32(name.encode()) % _LISTING_INTERVAL_S
        asked_at_s, _ = self.hosts.get(find_host(name), (now_s, 0))
        periods = [int(at_s + moment) // _LISTING_INTERVAL_S for at_s in (asked_at_s, now_s)]
        return self.heads.get(name) if periods[0] == periods[1] else None


def load_cursor(context: dg.SensorEvaluationContext) -> CommitCursor:
    """The cursor for a new tick; where it cannot be read, every repository counts as new."""
    try:
        cursor = CommitCursor.from_json(context.cursor)
    except ValueError as error:
        context.log.warning(f"the cursor is dropped, and every repository counts as new: {error}")
        cursor = CommitCursor()
    cursor.tick += 1
    return cursor


def _format_branches(watch: WatchedBranch) -> str:
    """The branch, HEAD for the default one; then patterns of further ones, which have a space in no name."""
    return " ".join((watch.branch or HEAD, *watch.further))

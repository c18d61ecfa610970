"""Names of branches, among them the heads of pull requests: `pull/12`, on GitLab `merge-requests/12`.

GitHub, Gitea and Forgejo keep such a head as `refs/pull/12/head`, GitLab as `refs/merge-requests/12/head`.
It is called as people type it after `git fetch origin`, without `/head`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

PULL_PREFIXES = {"github": "pull/", "gitlab": "merge-requests/"}
"""How the names of such heads begin, by service; other services do as GitHub does."""

_PULL_NAME = re.compile(r"(?:pull|merge-requests)/[0-9]+")
_PULL_REF = re.compile(r"refs/((?:pull|merge-requests)/[0-9]+)/head")
_WRONG_PATTERN = re.compile(
    r"refs/.*|(?:pull|merge-requests)/.+/(?:head|merge)|(?:pulls|merge-request|merge_requests?)/[0-9*?\[\]-]+"
)


def is_pull_name(name: str) -> bool:
    """Whether it names the head of a pull request."""
    return _PULL_NAME.fullmatch(name) is not None


def sort_pulls(names: Iterable[str]) -> list[str]:
    """Names of heads of pull requests by number."""
    return sorted(names, key=lambda name: (int(name.rpartition("/")[2]), name))


def parse_pull_ref(ref: str) -> str | None:
    """The name of the head that a ref of git holds; None: it holds none."""
    found = _PULL_REF.fullmatch(ref)
    return found[1] if found else None


def select_pull_patterns(patterns: Iterable[str]) -> tuple[str, ...]:
    """The patterns that may name heads of pull requests: `pull/*` does, `*` does not."""
    return tuple(each for each in patterns if each.startswith(tuple(PULL_PREFIXES.values())))


def is_wrong_pattern(pattern: str, service: str) -> bool:
    """Whether a pattern names a ref, or a pull request as its service does not."""
    others = tuple(prefix for each, prefix in PULL_PREFIXES.items() if each != service)
    is_of_other = service in PULL_PREFIXES and pattern.startswith(others)
    return is_of_other or _WRONG_PATTERN.fullmatch(pattern) is not None

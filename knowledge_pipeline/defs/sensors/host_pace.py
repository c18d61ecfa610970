"""How often a host is asked for the heads of its repositories: few of them at each tick, many more rarely."""

from collections.abc import Collection, Mapping

from knowledge_pipeline.config.connections.repositories import GitConnection

TICK_S = 4
"""Dagster's daemon evaluates sensors every five seconds, those whose interval is over: so each time."""

MAX_INTERVAL_S = 30.0
_MAX_PAUSE_S = 600.0
_S_PER_REPOSITORY = 0.3  # a host sees at most some three requests a second
_S_PER_LOCAL_REPOSITORY = 0.02  # two processes of git for a few milliseconds

HostState = tuple[float, int]
"""When a host was last asked, in seconds since 1970, and how many times in a row it gave no answer at all."""


def find_host(repository: str) -> str:
    """The host of a repository by its name; "" for this machine."""
    return GitConnection(type="git", url=repository).host or ""


def group_by_host(repositories: Collection[str]) -> dict[str, list[str]]:
    """Repositories by their host, in their order."""
    found: dict[str, list[str]] = {}
    for name in repositories:
        found.setdefault(find_host(name), []).append(name)
    return found


def is_due(host: str, repositories: int, state: HostState | None, now_s: float) -> bool:
    """Whether to ask a host now; one that is silent is asked half as often after each time."""
    if state is None:
        return True
    asked_at_s, silences = state
    each_s = _S_PER_REPOSITORY if host else _S_PER_LOCAL_REPOSITORY
    interval_s = min(MAX_INTERVAL_S, each_s * repositories)
    if host and silences > 1:
        interval_s = min(_MAX_PAUSE_S, max(interval_s, 5.0) * 2.0 ** min(silences - 1, 10))
    is_waiting = 0 <= now_s - asked_at_s < interval_s  # a clock that was set back delays nothing
    return interval_s <= TICK_S or not is_waiting


def update_hosts(
    hosts: dict[str, HostState], asked: Mapping[str, bool], waiting: Collection[str], now_s: float
) -> None:
    """Remember which hosts were asked: `asked` says of each repository whether it answered.

    A host with `waiting` repositories is due again at the next tick.
    """
    unfinished = {find_host(name) for name in waiting}
    for host, names in group_by_host(asked).items():
        silences = 0 if any(asked[name] for name in names) else hosts.get(host, (0.0, 0))[1] + 1
        if host not in unfinished:
            hosts[host] = (round(now_s, 1), silences)

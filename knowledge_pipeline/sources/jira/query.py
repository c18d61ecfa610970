"""JQL from filters: every value quoted, a user's own query kept together."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, tzinfo

from knowledge_pipeline.config.sources.filters import DEFAULT_PARTS
from knowledge_pipeline.errors import ConfigError
from knowledge_pipeline.times import parse_since

_TOKEN = re.compile(
    r"""\\.|(?P<quote>["'])|(?P<open>\()|(?P<close>\))|(?P<order>\border\s+by\b)""", re.IGNORECASE
)
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_MATCH_ALL = 'created >= "1970-01-02"'  # Cloud refuses a search that restricts nothing


@dataclass(frozen=True, slots=True)
class TicketCriteria:
    """Which tickets are taken: those that pass everything that is set."""

    projects: tuple[str, ...] = ()  # keys
    jql: str | None = None
    issue_types: tuple[str, ...] = ()
    statuses: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    since: str | None = None  # last updated since: a date, a time, or a span like "180 days"
    custom_fields: tuple[str, ...] = ()  # by display name
    max_results: int | None = None  # the most recently updated ones
    parts: tuple[str, ...] = DEFAULT_PARTS  # of a ticket, to read


def build_clauses(filters: TicketCriteria) -> list[str]:
    """The clauses of the filters that stay the same from day to day; all must hold.

    Raises:
        ConfigError: the user's `jql` does not close what it opens.
    """
    own = strip_order_by(filters.jql or "")
    return [
        *([f"({own})"] if own else []),
        *_build_in_clause("project", filters.projects),
        *_build_in_clause("issuetype", filters.issue_types),
        *_build_in_clause("status", filters.statuses),
        *_build_in_clause("labels", filters.labels),
    ]


def build_jql(
    clauses: Iterable[str], *, since: datetime | None, zone: tzinfo, latest_first: bool = False
) -> str:
    """The clauses as one query, in the order of creation, which no edit changes.

    Args:
        clauses: what must hold.
        since: only what was updated at that moment or later. JQL has no seconds, so it is the minute.
        zone: the time zone of the account; JQL reads dates in it.
        latest_first: in the order of the last update instead, the latest first.
    """
    held = list(clauses)
    if since is not None:
        held.append(f'updated >= "{since.astimezone(zone):%Y-%m-%d %H:%M}"')
    order = "updated DESC, key DESC" if latest_first else "created ASC, key ASC"
    return f"{' AND '.join(held or [_MATCH_ALL])} ORDER BY {order}"


def compute_oldest_update(filters: TicketCriteria) -> datetime | None:
    """The moment that the filter `since` names now.

    Raises:
        ConfigError: it is neither a date nor a duration.
    """
    return parse_since(filters.since) if filters.since else None


def quote_value(value: str) -> str:
    """A value as JQL reads it back."""
    return '"' + "".join(_ESCAPES.get(character, character) for character in value) + '"'


def strip_order_by(jql: str) -> str:
    """A user's query without its ORDER BY.

    Raises:
        ConfigError: a quote or a parenthesis is not closed, or closed without being opened: in
            parentheses such a query would mean something else.
    """
    depth, at = 0, 0
    while match := _TOKEN.search(jql, at):
        at = match.end()
        if quote := match["quote"]:
            end = re.compile(rf"(?:\\.|[^\\{quote}])*{quote}", re.DOTALL).match(jql, at)
            if end is None:
                raise ConfigError(f"jql opens a quote that it does not close: {jql!r}")
            at = end.end()
        elif match["open"] or match["close"]:
            depth += 1 if match["open"] else -1
            if depth < 0:
                raise ConfigError(f"jql closes a parenthesis that it does not open: {jql!r}")
        elif match["order"] and depth == 0:
            return jql[: match.start()].strip()
    if depth:
        raise ConfigError(f"jql opens a parenthesis that it does not close: {jql!r}")
    return jql.strip()


def _build_in_clause(field: str, values: tuple[str, ...]) -> list[str]:
    return [f"{field} in ({', '.join(quote_value(value) for value in values)})"] if values else []

"""JQL from filters, and the fields of a Jira site: which are read, and their texts.

In JQL, every value is quoted, and a user's own query kept together.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from decimal import Decimal
from difflib import get_close_matches
from typing import Any

from knowledge_pipeline.config.sources import DEFAULT_PARTS
from knowledge_pipeline.connectors.jira.adf import adf_to_markdown
from knowledge_pipeline.connectors.jira.wiki_markup import wiki_to_markdown
from knowledge_pipeline.errors import ConfigError, SourceRefused
from knowledge_pipeline.text import descend, is_list, is_object, list_objects
from knowledge_pipeline.times import parse_since

_TOKEN = re.compile(
    r"""\\.|(?P<quote>["'])|(?P<open>\()|(?P<close>\))|(?P<order>\border\s+by\b)""", re.IGNORECASE
)
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_MATCH_ALL = 'created >= "1970-01-02"'  # Cloud refuses a search that restricts nothing
_STANDARD_FIELDS = (
    *("summary", "description", "environment", "issuetype", "project", "status", "priority", "resolution"),
    *("labels", "components", "fixVersions", "versions", "assignee", "reporter", "creator", "created"),
    *("updated", "resolutiondate", "duedate", "parent", "issuelinks", "attachment", "comment", "security"),
)
_TEXT_AREA_TYPE = "com.atlassian.jira.plugin.system.customfieldtypes:textarea"
_SPRINT_CHARS = 1_000  # of its string, which begins with id, state and name
_SPRINT_NAME = re.compile(r"\[(?:.*?,)?name=(.*?)(?:,\w+=|\]$)")
_NAME_KEYS = ("displayName", "value", "name", "title", "key", "requestType", "rating")
_MAX_DEPTH = 20


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
    """Clauses that stay the same from day to day; all must hold. Raises ConfigError: `jql` is not closed."""
    own = _strip_order_by(filters.jql or "")
    listed = (
        ("project", filters.projects),
        ("issuetype", filters.issue_types),
        ("status", filters.statuses),
        ("labels", filters.labels),
    )
    clauses = [f"{name} in ({', '.join(map(_quote_value, values))})" for name, values in listed if values]
    return [f"({own})", *clauses] if own else clauses


def build_jql(
    clauses: Iterable[str], *, since: datetime | None, zone: tzinfo, latest_first: bool = False
) -> str:
    """The clauses as one query, in the order of creation, which no edit changes; or the latest update first.

    `since` is the minute, for JQL has no seconds, in `zone`, the account's, in which JQL reads dates.
    """
    conditions = list(clauses)
    if since is not None:
        conditions.append(f'updated >= "{since.astimezone(zone):%Y-%m-%d %H:%M}"')
    order = "updated DESC, key DESC" if latest_first else "created ASC, key ASC"
    return f"{' AND '.join(conditions or [_MATCH_ALL])} ORDER BY {order}"


def compute_oldest_update(filters: TicketCriteria) -> datetime | None:
    """The moment that the filter `since` names now. Raises ConfigError: it is no date or duration."""
    return parse_since(filters.since) if filters.since else None


def _strip_order_by(jql: str) -> str:
    """A user's query without its ORDER BY; what it opens must be closed: in parentheses it counts."""
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


def _quote_value(value: str) -> str:
    return '"' + "".join(_ESCAPES.get(character, character) for character in value) + '"'


@dataclass(frozen=True, slots=True)
class SiteFields:
    """Ids of the fields that a source reads besides the standard ones."""

    custom_ids: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    """Ids by display name; a site may have several fields of one name."""
    sprint_ids: Sequence[str] = ()
    epic_ids: Sequence[str] = ()
    markup_ids: frozenset[str] = frozenset()  # those that hold wiki markup on Server

    @property
    def requested_ids(self) -> list[str]:
        """Every field to ask for."""
        more = [id_ for ids in self.custom_ids.values() for id_ in ids]
        return list(dict.fromkeys([*_STANDARD_FIELDS, *self.sprint_ids, *self.epic_ids, *more]))


def resolve_site_fields(
    definitions: Sequence[Mapping[str, Any]], display_names: Sequence[str], service: str
) -> SiteFields:
    """The fields of a site (what `/field` answers) that are wanted, by their names in any case, or ids."""
    ids: dict[str, list[str]] = {}
    names: dict[str, str] = {}
    for definition in definitions:
        name = str(definition.get("name") or definition["id"])
        for spelled in {name.casefold(), str(definition["id"]).casefold()}:
            ids.setdefault(spelled, []).append(definition["id"])
            names.setdefault(spelled, name)
    for name in display_names:
        if name.casefold() not in ids:
            near = get_close_matches(name, names.values(), n=1)
            problem = f"{name!r}, but {near[0]!r}" if near else repr(name)
            raise SourceRefused(f"{service} has no field named {problem}: correct custom_fields")
    return SiteFields(
        {names[name.casefold()]: tuple(ids[name.casefold()]) for name in display_names},
        _list_ids_of_type(definitions, "com.pyxis.greenhopper.jira:gh-sprint"),
        _list_ids_of_type(definitions, "com.pyxis.greenhopper.jira:gh-epic-link"),
        frozenset(_list_ids_of_type(definitions, _TEXT_AREA_TYPE)),
    )


def format_field_value(
    value: Any, *, markup: bool = False, people: Mapping[str, str] | None = None, depth: int = 0
) -> str:
    """The text of a field's value: names, never ids. With `markup`, a string is wiki markup."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)):
        return f"{Decimal(repr(value)):f}".removesuffix(".0")  # all its digits, and no exponent
    if isinstance(value, str):
        return wiki_to_markdown(value, people) if markup else value.strip()
    if depth > _MAX_DEPTH:
        return ""
    if is_list(value):
        parts = [format_field_value(entry, markup=markup, people=people, depth=depth + 1) for entry in value]
        return ", ".join(part for part in parts if part)
    if is_object(value) and value.get("type") == "doc":
        return adf_to_markdown(value, people)
    if is_object(value) and ("ongoingCycle" in value or is_list(value.get("completedCycles"))):
        return _format_sla(value)
    return _format_named_value(value, depth) if is_object(value) else ""


def parse_sprint_name(value: Any) -> str:
    """A sprint's name, from an object, or from the string that older Servers print of one."""
    if isinstance(value, str):
        match = _SPRINT_NAME.search(value[:_SPRINT_CHARS])
        return match[1].strip() if match else ""
    return str(value.get("name") or "") if is_object(value) else ""


def _format_named_value(value: Mapping[str, Any], depth: int) -> str:
    name = next((format_field_value(value[key], depth=depth + 1) for key in _NAME_KEYS if value.get(key)), "")
    child = value.get("child")  # of a cascading list
    if is_object(child) and depth <= _MAX_DEPTH:
        return f"{name} / {_format_named_value(child, depth + 1)}"
    return name


def _format_sla(value: Mapping[str, Any]) -> str:
    """The cycles of a goal of Jira Service Management; of one that runs nothing that time alone changes."""
    parts: list[str] = []
    for cycle in list_objects(value.get("completedCycles")):
        times = [str(descend(cycle, name).get("friendly") or "") for name in ("elapsedTime", "goalDuration")]
        parts.append(f"{' of '.join(filter(None, times))} ({'breached' if cycle.get('breached') else 'met'})")
    if cycle := descend(value, "ongoingCycle"):
        goal = str(descend(cycle, "goalDuration").get("friendly") or "")
        due = str(descend(cycle, "breachTime").get("iso8601") or "")
        state = "breached" if cycle.get("breached") else "paused" if cycle.get("paused") else "running"
        parts.append(", ".join(filter(None, [f"goal {goal}".strip(), f"due {due}" if due else "", state])))
    return "; ".join(part.strip() for part in parts)


def _list_ids_of_type(definitions: Sequence[Mapping[str, Any]], kind: str) -> tuple[str, ...]:
    return tuple(
        definition["id"]
        for definition in definitions
        if (definition.get("schema") or dict[str, Any]()).get("custom") == kind
    )

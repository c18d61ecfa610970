"""The fields of a Jira site: which are asked for, and what the values of custom fields say."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from knowledge_pipeline.errors import SourceRefused
from knowledge_pipeline.sources.jira.adf import adf_text
from knowledge_pipeline.sources.jira.markup import wiki_text

STANDARD = (
    *("summary", "description", "environment", "issuetype", "project", "status", "priority", "resolution"),
    *("labels", "components", "fixVersions", "versions", "assignee", "reporter", "creator", "created"),
    *("updated", "resolutiondate", "duedate", "parent", "issuelinks", "attachment", "comment", "security"),
)
_SPRINT = "com.pyxis.greenhopper.jira:gh-sprint"
_EPIC = "com.pyxis.greenhopper.jira:gh-epic-link"
_TEXT_AREA = "com.atlassian.jira.plugin.system.customfieldtypes:textarea"
_SPRINT_NAME = re.compile(r"\[(?:.*?,)?name=(.*?)(?:,\w+=|\]$)")
_NAMES = ("displayName", "value", "name", "title", "key")
_DEEPEST = 20


@dataclass(frozen=True, slots=True)
class SiteFields:
    """Ids of the fields that a source reads beside the standard ones."""

    custom: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    """Ids by display name; a site may have several fields of one name."""
    sprint: Sequence[str] = ()
    epic: Sequence[str] = ()
    markup: frozenset[str] = frozenset()  # those that hold wiki markup on Server

    @property
    def asked(self) -> list[str]:
        """Every field to ask for."""
        more = [each for ids in self.custom.values() for each in ids]
        return list(dict.fromkeys([*STANDARD, *self.sprint, *self.epic, *more]))


def site_fields(known: Sequence[Mapping[str, Any]], wanted: Sequence[str], service: str) -> SiteFields:
    """The fields of a site that are wanted, by their display names.

    Args:
        known: what `/field` answers.
        wanted: display names, in any case; an id will do.
        service: as a person knows it, for the error.

    Raises:
        SourceRefused: the site has no field of that name.
    """
    ids: dict[str, list[str]] = {}
    names: dict[str, str] = {}
    for each in known:
        name = str(each.get("name") or each["id"])
        for spelled in {name.casefold(), str(each["id"]).casefold()}:
            ids.setdefault(spelled, []).append(each["id"])
            names.setdefault(spelled, name)
    for name in wanted:
        if name.casefold() not in ids:
            near = get_close_matches(name, names.values(), n=1)
            raise SourceRefused(
                f"{service} has no field named {name!r}{f', but {near[0]!r}' if near else ''}: "
                "correct custom_fields"
            )
    return SiteFields(
        {names[name.casefold()]: tuple(ids[name.casefold()]) for name in wanted},
        _of_type(known, _SPRINT),
        _of_type(known, _EPIC),
        frozenset(_of_type(known, _TEXT_AREA)),
    )


def shown(
    value: Any, *, markup: bool = False, people: Mapping[str, str] | None = None, depth: int = 0
) -> str:
    """What a field's value says to a reader: names, never ids.

    Args:
        value: as the API has it.
        markup: a string is wiki markup.
        people: display names, for mentions in texts.
        depth: how far inside another value it lies.
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)):
        return f"{value:g}" if isinstance(value, float) and abs(value) < 1e15 else str(value)
    if isinstance(value, str):
        return wiki_text(value, people) if markup else value.strip()
    if depth > _DEEPEST:
        return ""
    if isinstance(value, list):
        parts = [shown(each, markup=markup, people=people, depth=depth + 1) for each in value]
        return ", ".join(part for part in parts if part)
    if isinstance(value, dict) and value.get("type") == "doc":
        return adf_text(value, people)
    return _named(value, depth) if isinstance(value, dict) else ""


def sprint_name(value: Any) -> str:
    """A sprint's name, from an object, or from the string that older Servers print of one."""
    if isinstance(value, str):
        match = _SPRINT_NAME.search(value)
        return match[1].strip() if match else ""
    return str(value.get("name") or "") if isinstance(value, dict) else ""


def _named(value: Mapping[str, Any], depth: int) -> str:
    name = next((shown(value[key], depth=depth + 1) for key in _NAMES if value.get(key)), "")
    child = value.get("child")  # of a cascading list
    return f"{name} / {_named(child, depth + 1)}" if isinstance(child, dict) and depth <= _DEEPEST else name


def _of_type(known: Sequence[Mapping[str, Any]], kind: str) -> tuple[str, ...]:
    return tuple(each["id"] for each in known if (each.get("schema") or {}).get("custom") == kind)

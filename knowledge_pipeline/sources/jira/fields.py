"""The fields of a Jira site: which are read, and the texts of custom fields."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from knowledge_pipeline.errors import SourceRefused
from knowledge_pipeline.json_values import is_list, is_object
from knowledge_pipeline.sources.jira.adf import adf_to_markdown
from knowledge_pipeline.sources.jira.markup import wiki_to_markdown

STANDARD_FIELDS = (
    *("summary", "description", "environment", "issuetype", "project", "status", "priority", "resolution"),
    *("labels", "components", "fixVersions", "versions", "assignee", "reporter", "creator", "created"),
    *("updated", "resolutiondate", "duedate", "parent", "issuelinks", "attachment", "comment", "security"),
)
_TEXT_AREA_TYPE = "com.atlassian.jira.plugin.system.customfieldtypes:textarea"
_SPRINT_CHARS = 1_000  # of its string, which begins with id, state and name
_SPRINT_NAME = re.compile(r"\[(?:.*?,)?name=(.*?)(?:,\w+=|\]$)")
_NAME_KEYS = ("displayName", "value", "name", "title", "key")
_MAX_DEPTH = 20


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
        more = [each for ids in self.custom_ids.values() for each in ids]
        return list(dict.fromkeys([*STANDARD_FIELDS, *self.sprint_ids, *self.epic_ids, *more]))


def resolve_site_fields(
    definitions: Sequence[Mapping[str, Any]], display_names: Sequence[str], service: str
) -> SiteFields:
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
    for each in definitions:
        name = str(each.get("name") or each["id"])
        for spelled in {name.casefold(), str(each["id"]).casefold()}:
            ids.setdefault(spelled, []).append(each["id"])
            names.setdefault(spelled, name)
    for name in display_names:
        if name.casefold() not in ids:
            near = get_close_matches(name, names.values(), n=1)
            found = f"{name!r}, but {near[0]!r}" if near else repr(name)
            raise SourceRefused(f"{service} has no field named {found}: correct custom_fields")
    return SiteFields(
        {names[name.casefold()]: tuple(ids[name.casefold()]) for name in display_names},
        _list_ids_of_type(definitions, "com.pyxis.greenhopper.jira:gh-sprint"),
        _list_ids_of_type(definitions, "com.pyxis.greenhopper.jira:gh-epic-link"),
        frozenset(_list_ids_of_type(definitions, _TEXT_AREA_TYPE)),
    )


def format_field_value(
    value: Any, *, markup: bool = False, people: Mapping[str, str] | None = None, depth: int = 0
) -> str:
    """The text of a field's value: names, never ids.

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
        return wiki_to_markdown(value, people) if markup else value.strip()
    if depth > _MAX_DEPTH:
        return ""
    if is_list(value):
        parts = [format_field_value(each, markup=markup, people=people, depth=depth + 1) for each in value]
        return ", ".join(part for part in parts if part)
    if is_object(value) and value.get("type") == "doc":
        return adf_to_markdown(value, people)
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


def _list_ids_of_type(definitions: Sequence[Mapping[str, Any]], kind: str) -> tuple[str, ...]:
    return tuple(
        each["id"] for each in definitions if (each.get("schema") or dict[str, Any]()).get("custom") == kind
    )

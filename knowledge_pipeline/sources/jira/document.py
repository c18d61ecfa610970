"""One ticket as a document: its description, what its fields say, and what was said about it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from knowledge_pipeline.records import Document
from knowledge_pipeline.sources.conversation import Turn, conversation
from knowledge_pipeline.sources.jira.adf import adf_text
from knowledge_pipeline.sources.jira.fields import SiteFields, shown, sprint_name
from knowledge_pipeline.sources.jira.markup import wiki_text

_KINDS = (  # of a link, by the words that Jira shows for it
    ("duplicates", ("duplicates",)),
    ("supersedes", ("supersedes", "replaces")),
    ("implements", ("implements",)),
    ("closes", ("closes", "resolves", "fixes")),
)


@dataclass(frozen=True, slots=True)
class Ticket:
    """A ticket as the API has it, whose comments are complete."""

    raw: Mapping[str, Any]
    comments: Sequence[Mapping[str, Any]]
    url: str  # of the site
    cloud: bool  # else texts are wiki markup
    fields: SiteFields

    @property
    def key(self) -> str:
        """PROJ-12."""
        return str(self.raw.get("key") or self.raw["id"])

    @property
    def address(self) -> str:
        """Where a person opens it."""
        return f"{self.url}/browse/{self.key}"

    def field(self, name: str) -> Any:
        """The value of a field; None where it has none."""
        fields = self.raw.get("fields")
        return fields.get(name) if isinstance(fields, dict) else None


def ticket_document(ticket: Ticket) -> Document:
    """The document of a ticket. Its metadata has keys for what has a value."""
    people = _people(ticket)
    title = f"{ticket.key} {' '.join(str(ticket.field('summary') or '').split())}".strip()
    custom = _custom(ticket, people)
    text, segments = conversation(title, _turns(ticket, custom, people))
    project = _text(ticket, "project", "key") or ticket.key.rpartition("-")[0]
    return Document(
        uri=f"issue/{ticket.raw['id']}",
        text=text,
        path=f"{project}/{ticket.key}",
        title=title,
        url=ticket.address,
        author=_name(ticket.field("creator")) or _name(ticket.field("reporter")),
        last_modified=moment(ticket.field("updated")),
        metadata=_metadata(ticket, project, custom) | {"segments": segments},
    )


def moment(told: Any) -> datetime | None:
    """A time as Jira writes it ("2026-03-01T10:00:00.000+0100"), in UTC."""
    try:
        parsed = datetime.fromisoformat(str(told))
    except ValueError:
        return None
    return parsed.astimezone(UTC) if parsed.tzinfo else parsed.replace(tzinfo=UTC)


def public(comment: Mapping[str, Any]) -> bool:
    """Whether all who see the ticket see the comment: none that is kept to a role or a group."""
    return not comment.get("visibility")


def _turns(ticket: Ticket, custom: Mapping[str, str], people: Mapping[str, str]) -> Iterator[Turn]:
    author = _name(ticket.field("reporter")) or _name(ticket.field("creator"))
    at = moment(ticket.field("created"))
    yield Turn(
        "description", _rich(ticket.field("description"), ticket, people), author, at, url=ticket.address
    )
    yield Turn("environment", _rich(ticket.field("environment"), ticket, people))
    yield Turn("details", _details(ticket, custom))
    for comment in ticket.comments:
        if public(comment):
            yield _said(ticket, comment, people)


def _said(ticket: Ticket, comment: Mapping[str, Any], people: Mapping[str, str]) -> Turn:
    return Turn(
        "internal note" if comment.get("jsdPublic") is False else "comment",
        _rich(comment.get("body"), ticket, people),
        _name(comment.get("author")),
        moment(comment.get("created")),
        url=f"{ticket.address}?focusedCommentId={comment.get('id')}",
    )


def _details(ticket: Ticket, custom: Mapping[str, str]) -> str:
    """What the fields say that a reader of the text would miss, a line each."""
    lines = {
        "Parent": ", ".join(_parents(ticket)),
        "Links": "; ".join(f"{how} {key}" for how, key in _links(ticket)),
        "Components": ", ".join(_names(ticket, "components")),
        "Fix versions": ", ".join(_names(ticket, "fixVersions")),
        "Sprint": ", ".join(_sprints(ticket)),
        **custom,
        "Attachments": ", ".join(_attachments(ticket)),
    }
    return "\n".join(_line(name, text) for name, text in lines.items() if text)


def _line(name: str, text: str) -> str:
    if "\n" not in text:
        return f"- {name}: {text}"
    return "\n".join([f"- {name}:", "", *(f"  {line}".rstrip() for line in text.split("\n")), ""])


def _metadata(ticket: Ticket, project: str, custom: Mapping[str, str]) -> dict[str, Any]:
    told = {
        "key": ticket.key,
        "project": project,
        "project_name": _text(ticket, "project", "name"),
        "issue_type": _text(ticket, "issuetype", "name"),
        "status": _text(ticket, "status", "name"),
        "priority": _text(ticket, "priority", "name"),
        "resolution": _text(ticket, "resolution", "name"),
        "security_level": _text(ticket, "security", "name"),
        "labels": sorted(label for label in ticket.field("labels") or () if isinstance(label, str)),
        "assignee": _name(ticket.field("assignee")),
        "reporter": _name(ticket.field("reporter")),
        "components": _names(ticket, "components"),
        "fix_versions": _names(ticket, "fixVersions"),
        "affects_versions": _names(ticket, "versions"),
        "sprint": _sprints(ticket),
        "parent": next(iter(_parents(ticket)), None),
        "created": _iso(ticket.field("created")),
        "resolved": _iso(ticket.field("resolutiondate")),
        "due": ticket.field("duedate"),
        "attachments": _attachments(ticket),
        "custom_fields": {name: text for name, text in custom.items() if text},
        "mentions": _mentions(ticket),
    }
    return {name: value for name, value in told.items() if value not in (None, "", [], {})}


def _mentions(ticket: Ticket) -> list[dict[str, str]]:
    """What the ticket's own links and its parent name."""
    found = {(_kind(how), key) for how, key in _links(ticket)}
    found |= {("references", key) for key in _parents(ticket)}
    return [{"kind": kind, "target": key} for kind, key in sorted(found)]


def _kind(how: str) -> str:
    words = how.casefold().split()
    if "by" in words:  # "is duplicated by": the other one says it of this one
        return "references"
    return next((kind for kind, names in _KINDS if any(name in words for name in names)), "references")


def _links(ticket: Ticket) -> list[tuple[str, str]]:
    """How each linked ticket is related, in Jira's words, and its key."""
    found: list[tuple[str, str]] = []
    for link in _dicts(ticket.field("issuelinks")):
        kind = link.get("type") or {}
        for side, words in (("outwardIssue", "outward"), ("inwardIssue", "inward")):
            key = (link.get(side) or {}).get("key")
            if key:
                found.append((str(kind.get(words) or kind.get("name") or "relates to"), key))
    return sorted(set(found))


def _parents(ticket: Ticket) -> list[str]:
    parent = ticket.field("parent")
    keys = [parent.get("key")] if isinstance(parent, dict) else []
    keys += [ticket.field(name) for name in ticket.fields.epic]
    return list(dict.fromkeys(key for key in keys if isinstance(key, str) and key))


def _sprints(ticket: Ticket) -> list[str]:
    values = [value for name in ticket.fields.sprint for value in ticket.field(name) or ()]
    return list(dict.fromkeys(name for name in map(sprint_name, values) if name))


def _custom(ticket: Ticket, people: Mapping[str, str]) -> dict[str, str]:
    """The texts of the custom fields, by display name."""
    texts: dict[str, str] = {}
    for name, ids in ticket.fields.custom.items():
        marked = [(ticket.field(each), not ticket.cloud and each in ticket.fields.markup) for each in ids]
        said = [shown(value, markup=markup, people=people) for value, markup in marked]
        texts[name] = ", ".join(dict.fromkeys(text for text in said if text))
    return texts


def _rich(value: Any, ticket: Ticket, people: Mapping[str, str]) -> str:
    """Text from a document, or from wiki markup; Cloud's plain strings are neither."""
    if isinstance(value, str):
        return value if ticket.cloud else wiki_text(value, people)
    return adf_text(value, people) if value else ""


def _people(ticket: Ticket) -> dict[str, str]:
    """Display names of those the ticket names, by every id that a mention may use."""
    named = [ticket.field(name) for name in ("assignee", "reporter", "creator")]
    named += [comment.get("author") for comment in ticket.comments]
    people: dict[str, str] = {}
    for person in named:
        if isinstance(person, dict) and person.get("displayName"):
            ids = (person.get(name) for name in ("accountId", "name", "key"))
            people |= {each: str(person["displayName"]) for each in ids if isinstance(each, str)}
    return people


def _name(person: Any) -> str | None:
    return (str(person.get("displayName") or "") or None) if isinstance(person, dict) else None


def _text(ticket: Ticket, field: str, name: str) -> str | None:
    value = ticket.field(field)
    return str(value.get(name) or "") or None if isinstance(value, dict) else None


def _names(ticket: Ticket, field: str) -> list[str]:
    return [str(each["name"]) for each in _dicts(ticket.field(field)) if each.get("name")]


def _attachments(ticket: Ticket) -> list[str]:
    files = (each.get("filename") for each in _dicts(ticket.field("attachment")))
    return sorted(str(name) for name in files if name)


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _iso(told: Any) -> str | None:
    at = moment(told)
    return at.isoformat() if at else None

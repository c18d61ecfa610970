"""One ticket as a document: its description, its fields and its comments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from knowledge_pipeline import times
from knowledge_pipeline.connectors.conversations import Turn, format_conversation
from knowledge_pipeline.connectors.jira.adf import adf_to_markdown
from knowledge_pipeline.connectors.jira.query import SiteFields, format_field_value, parse_sprint_name
from knowledge_pipeline.connectors.jira.wiki_markup import wiki_to_markdown
from knowledge_pipeline.extraction.markdown import format_link
from knowledge_pipeline.records import Attachment, Document
from knowledge_pipeline.text import descend, list_objects

_LINK_KINDS = (  # of a link, by the words that Jira shows for it
    ("duplicates", ("duplicates",)),
    ("supersedes", ("supersedes", "replaces")),
    ("implements", ("implements",)),
    ("closes", ("closes", "resolves", "fixes")),
)


@dataclass(frozen=True, slots=True)
class Ticket:
    """A ticket as the API has it, whose comments and work logs are complete."""

    raw: Mapping[str, Any]
    comments: Sequence[Mapping[str, Any]]
    site_url: str
    is_cloud: bool  # else texts are wiki markup
    fields: SiteFields
    has_description: bool = True  # else it is left out
    worklogs: Sequence[Mapping[str, Any]] = ()
    remote_links: Sequence[Mapping[str, Any]] = ()

    @property
    def key(self) -> str:
        """PROJ-12."""
        return str(self.raw.get("key") or self.raw["id"])

    @property
    def page_url(self) -> str:
        """Where a person opens it."""
        return f"{self.site_url}/browse/{self.key}"

    def get_field(self, name: str) -> Any:
        """The value of a field; None where it has none."""
        return descend(self.raw, "fields").get(name)


def build_ticket_document(ticket: Ticket) -> Document:
    """The document of a ticket. Its metadata has keys for what has a value."""
    people = _display_names_by_id(ticket)
    title = f"{ticket.key} {' '.join(str(ticket.get_field('summary') or '').split())}".strip()
    custom: dict[str, str] = {}
    markup_ids = frozenset[str]() if ticket.is_cloud else ticket.fields.markup_ids
    for name, ids in ticket.fields.custom_ids.items():
        marked = [(ticket.get_field(id_), id_ in markup_ids) for id_ in ids]
        values = [format_field_value(value, markup=markup, people=people) for value, markup in marked]
        custom[name] = ", ".join(dict.fromkeys(text for text in values if text))
    text, segments = format_conversation(title, _iter_turns(ticket, custom, people))
    project = _get_text(ticket, "project", "key") or ticket.key.rpartition("-")[0]
    return Document(
        uri=f"issue/{ticket.raw['id']}",
        text=text,
        path=f"{project}/{ticket.key}",
        title=title,
        url=ticket.page_url,
        author=_display_name(ticket.get_field("creator")) or _display_name(ticket.get_field("reporter")),
        last_modified=parse_time(ticket.get_field("updated")),
        metadata=_build_metadata(ticket, project, custom) | {"segments": segments},
        attachments=tuple(_iter_attachments(ticket)),
    )


def parse_time(value: Any) -> datetime | None:
    """A time as Jira writes it ("2026-03-01T10:00:00.000+0100"), in UTC."""
    try:
        return times.parse_time(str(value)).astimezone(UTC)
    except ValueError:
        return None


def _iter_turns(ticket: Ticket, custom: Mapping[str, str], people: Mapping[str, str]) -> Iterator[Turn]:
    author = _display_name(ticket.get_field("reporter")) or _display_name(ticket.get_field("creator"))
    text, at = _to_markdown(ticket.get_field("description"), ticket, people), ticket.get_field("created")
    if ticket.has_description:
        yield Turn("description", text, author, parse_time(at), url=ticket.page_url)
        yield Turn("environment", _to_markdown(ticket.get_field("environment"), ticket, people))
    yield Turn("details", _format_details(ticket, custom))
    for comment in filter(_is_public, ticket.comments):
        kind = "internal note" if comment.get("jsdPublic") is False else "comment"
        text = _to_markdown(comment.get("body"), ticket, people)
        url = f"{ticket.page_url}?focusedCommentId={comment.get('id')}"
        at = parse_time(comment.get("created"))
        yield Turn(kind, text, _display_name(comment.get("author")), at, url=url)
    for worklog in filter(_is_public, ticket.worklogs):
        comment = _to_markdown(worklog.get("comment"), ticket, people).strip()
        spent = str(worklog.get("timeSpent") or "")  # which Jira writes for people: "3h 20m"
        text = "\n\n".join(part for part in (f"Time spent: {spent}" if spent else "", comment) if part)
        url = f"{ticket.page_url}?focusedWorklogId={worklog.get('id')}"
        started = parse_time(worklog.get("started"))
        yield Turn("work log", text, _display_name(worklog.get("author")), started, url=url)


def _is_public(entry: Mapping[str, Any]) -> bool:
    """Whether all who see the ticket see it: nothing that is kept to a role or a group."""
    return not entry.get("visibility")


def _format_details(ticket: Ticket, custom: Mapping[str, str]) -> str:
    """What the fields say that a reader of the text would miss, a line each."""
    parents, parent_title = _list_parent_keys(ticket), _get_parent_title(ticket)
    if parents and parent_title:
        parents[0] += f" {parent_title}"
    lines = {
        "Parent": ", ".join(parents),
        "Links": "; ".join(f"{how} {key}" for how, key in _list_links(ticket)),
        "Components": ", ".join(_list_names(ticket, "components")),
        "Fix versions": ", ".join(_list_names(ticket, "fixVersions")),
        "Affects versions": ", ".join(_list_names(ticket, "versions")),
        "Sprint": ", ".join(_list_sprints(ticket)),
        **custom,
        "Attachments": ", ".join(_list_attachments(ticket)),
        "Remote links": "; ".join(
            f"{link['relationship']} {format_link(link['title'], link['url'])}"
            for link in _list_remote_links(ticket)
        ),
    }
    return "\n".join(_format_detail(name, text) for name, text in lines.items() if text)


def _format_detail(name: str, text: str) -> str:
    if "\n" not in text:
        return f"- {name}: {text}"
    return "\n".join([f"- {name}:", "", *(f"  {line}".rstrip() for line in text.split("\n")), ""])


def _build_metadata(ticket: Ticket, project: str, custom: Mapping[str, str]) -> dict[str, Any]:
    mentions = {(_link_kind(how), key) for how, key in _list_links(ticket)}
    mentions |= {("references", key) for key in _list_parent_keys(ticket)}
    remote_links = _list_remote_links(ticket)
    mentions |= {(_link_kind(link["relationship"]), link["url"]) for link in remote_links}
    metadata = {
        "key": ticket.key,
        "project": project,
        "project_name": _get_text(ticket, "project", "name"),
        "issue_type": _get_text(ticket, "issuetype", "name"),
        "status": _get_text(ticket, "status", "name"),
        "priority": _get_text(ticket, "priority", "name"),
        "resolution": _get_text(ticket, "resolution", "name"),
        "security_level": _get_text(ticket, "security", "name"),
        "labels": sorted(label for label in ticket.get_field("labels") or () if isinstance(label, str)),
        "assignee": _display_name(ticket.get_field("assignee")),
        "reporter": _display_name(ticket.get_field("reporter")),
        "components": _list_names(ticket, "components"),
        "fix_versions": _list_names(ticket, "fixVersions"),
        "affects_versions": _list_names(ticket, "versions"),
        "sprint": _list_sprints(ticket),
        "parent": next(iter(_list_parent_keys(ticket)), None),
        "parent_title": _get_parent_title(ticket),
        "created": _format_time(ticket.get_field("created")),
        "resolved": _format_time(ticket.get_field("resolutiondate")),
        "due": ticket.get_field("duedate"),
        "attachments": _list_attachments(ticket),
        "remote_links": remote_links,
        "custom_fields": {name: text for name, text in custom.items() if text},
        "mentions": [{"kind": kind, "target": key} for kind, key in sorted(mentions)],
    }
    return {name: value for name, value in metadata.items() if value not in (None, "", [], {})}


def _link_kind(label: str) -> str:
    words = label.casefold().split()
    if "by" in words:  # "is duplicated by": the other one says it of this one
        return "references"
    return next((kind for kind, names in _LINK_KINDS if any(name in words for name in names)), "references")


def _list_links(ticket: Ticket) -> list[tuple[str, str]]:
    links: list[tuple[str, str]] = []
    for link in list_objects(ticket.get_field("issuelinks")):
        kind = descend(link, "type")
        for side, words in (("outwardIssue", "outward"), ("inwardIssue", "inward")):
            if key := descend(link, side).get("key"):
                links.append((str(kind.get(words) or kind.get("name") or "relates to"), key))
    return sorted(set(links))


def _list_parent_keys(ticket: Ticket) -> list[str]:
    keys = [descend(ticket.get_field("parent")).get("key"), *map(ticket.get_field, ticket.fields.epic_ids)]
    return list(dict.fromkeys(key for key in keys if isinstance(key, str) and key))


def _get_parent_title(ticket: Ticket) -> str | None:
    """The parent's summary; a field of Server that holds an epic has its key alone."""
    summary = descend(ticket.get_field("parent"), "fields").get("summary")
    return " ".join(str(summary or "").split()) or None


def _list_remote_links(ticket: Ticket) -> list[dict[str, str]]:
    links: list[dict[str, str]] = []
    for remote_link in ticket.remote_links:
        to = descend(remote_link, "object")
        if url := str(to.get("url") or ""):
            title = " ".join(str(to.get("title") or url).split())
            relationship = str(remote_link.get("relationship") or "links to")
            links.append({"title": title, "url": url, "relationship": relationship})
    return links


def _list_sprints(ticket: Ticket) -> list[str]:
    values = [value for name in ticket.fields.sprint_ids for value in ticket.get_field(name) or ()]
    return list(dict.fromkeys(name for name in map(parse_sprint_name, values) if name))


def _to_markdown(value: Any, ticket: Ticket, people: Mapping[str, str]) -> str:
    """Text from a document, or from wiki markup; Cloud's plain strings are neither."""
    if isinstance(value, str):
        return value if ticket.is_cloud else wiki_to_markdown(value, people)
    return adf_to_markdown(value, people) if value else ""


def _display_names_by_id(ticket: Ticket) -> dict[str, str]:
    """Display names of those the ticket names, by every id that a mention may use."""
    persons = [ticket.get_field(name) for name in ("assignee", "reporter", "creator")]
    persons += [entry.get("author") for entry in (*ticket.comments, *ticket.worklogs)]
    people: dict[str, str] = {}
    for person in persons:
        if name := _display_name(person):
            ids = (person.get(key) for key in ("accountId", "name", "key"))
            people |= {id_: name for id_ in ids if isinstance(id_, str)}
    return people


def _display_name(person: Any) -> str | None:
    return str(descend(person).get("displayName") or "") or None


def _get_text(ticket: Ticket, field: str, name: str) -> str | None:
    return str(descend(ticket.get_field(field)).get(name) or "") or None


def _list_names(ticket: Ticket, field: str) -> list[str]:
    return [str(entry["name"]) for entry in list_objects(ticket.get_field(field)) if entry.get("name")]


def _list_attachments(ticket: Ticket) -> list[str]:
    files = (attachment.get("filename") for attachment in list_objects(ticket.get_field("attachment")))
    return sorted(str(name) for name in files if name)


def _iter_attachments(ticket: Ticket) -> Iterator[Attachment]:
    for attachment in list_objects(ticket.get_field("attachment")):
        id_, name = str(attachment.get("id") or ""), str(attachment.get("filename") or "")
        size = attachment.get("size")
        if not id_.isdecimal() or not name:
            continue
        yield Attachment(
            id=id_,
            name=name,
            address=str(attachment.get("content") or ""),
            revision=f"{size}",
            size_bytes=size if isinstance(size, int) else None,
            url=f"{ticket.site_url}/secure/attachment/{id_}/{quote(name, safe='')}",
            author=_display_name(attachment.get("author")),
            created=parse_time(attachment.get("created")),
        )


def _format_time(value: Any) -> str | None:
    at = parse_time(value)
    return at.isoformat() if at else None

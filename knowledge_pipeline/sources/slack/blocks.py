"""What one message of Slack says: its text, or the blocks that are shown instead, attachments, files.

Nothing is taken for granted of a message, as a day of an export may hold anything: what is not of
the shape that Slack documents is passed over. https://docs.slack.dev/reference/block-kit/blocks
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from knowledge_pipeline.sources.markdown_writing import coded, fenced, hanging, linked, quoted, table
from knowledge_pipeline.sources.slack.text import Names, channel_reference, clean, mention, moment_of, valid

Json = Mapping[str, Any]

_UNFURLED = ("from_url", "original_url")  # what Slack itself adds to a link
_MARKS = (("strike", "~"), ("italic", "_"), ("bold", "*"))
_INDENT = "    "
_MOST_INDENT = 8


def text_of(message: Json, names: Names) -> str:
    """Everything that people see of a message, but for who and when; "" where there is nothing."""
    said = string(message.get("text"))
    blocks = dicts(message.get("blocks"))
    composed = any(block.get("type") != "rich_text" for block in blocks)  # then `text` is but a fallback
    body = "" if composed else clean(said, names)
    if not body.strip() and blocks:
        body = _blocks(blocks, names)
    body = body if body.strip() else clean(said, names)
    parts = [body, *_attachments(message, names, alone=not body.strip()), _files(message)]
    return valid("\n\n".join(part.strip() for part in parts if part.strip()))


def dicts(value: Any) -> list[Json]:
    """The objects of a list, whatever it is."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def string(value: Any) -> str:
    """The value where it is text, else ""."""
    return value if isinstance(value, str) else ""


def _attachments(message: Json, names: Names, *, alone: bool) -> Iterator[str]:
    """What bots attach. A preview of a link is none of it, unless there is nothing else."""
    for attachment in dicts(message.get("attachments")):
        if alone or not any(attachment.get(name) for name in _UNFURLED):
            yield _attachment(attachment, names)


def _attachment(attachment: Json, names: Names) -> str:
    title = linked(
        clean(string(attachment.get("title")), names), clean(string(attachment.get("title_link")), names)
    )
    lines = [
        clean(string(attachment.get("pretext")), names),
        clean(string(attachment.get("author_name")), names),
        title,
        clean(string(attachment.get("text")), names),
        _blocks(dicts(attachment.get("blocks")), names),
        *(_field(field, names) for field in dicts(attachment.get("fields"))),
    ]
    told = [line for line in lines if line.strip()] or [clean(string(attachment.get("fallback")), names)]
    footer = clean(string(attachment.get("footer")), names)
    return "\n".join([*told, footer] if footer.strip() else told)


def _field(field: Json, names: Names) -> str:
    title, value = (clean(string(field.get(name)), names) for name in ("title", "value"))
    return f"{title}: {value}" if title and value else title or value


def _files(message: Json) -> str:
    named = [string(file.get("name")) or string(file.get("title")) for file in dicts(message.get("files"))]
    shown = [" ".join(name.split()) for name in named if name.strip()]
    return f"Files: {', '.join(shown)}" if shown else ""


def _blocks(blocks: list[Json], names: Names) -> str:
    parts = (_block(block, names) for block in blocks)
    return "\n\n".join(part for part in parts if part.strip())


def _block(block: Json, names: Names) -> str:
    match block.get("type"):
        case "rich_text":
            return "\n".join(_rich(each, names) for each in dicts(block.get("elements")))
        case "section":
            fields = [_text(field, names) for field in dicts(block.get("fields"))]
            return "\n".join(part for part in [_text(block.get("text"), names), *fields] if part)
        case "context":
            return " ".join(part for each in dicts(block.get("elements")) if (part := _text(each, names)))
        case "markdown":  # Markdown already
            return string(block.get("text"))
        case "table":
            return _table(block, names)
        case "image" | "video":
            told = (_text(block.get("title"), names), string(block.get("alt_text")))
            return next((part for part in told if part), "")
        case _:  # header, and what is to come; buttons and pickers hold no text of their own
            return _text(block.get("text"), names)


def _text(element: Any, names: Names) -> str:
    """A text object, or an image among texts."""
    if not isinstance(element, dict):
        return ""
    if element.get("type") == "image":
        return string(element.get("alt_text"))
    said = string(element.get("text"))
    return said if element.get("type") == "plain_text" else clean(said, names)


def _table(block: Json, names: Names) -> str:
    given = block.get("rows")
    rows = [[_cell(cell, names) for cell in dicts(row)] for row in (given if isinstance(given, list) else [])]
    return table(rows)


def _cell(cell: Json, names: Names) -> str:
    if cell.get("type") == "rich_text":
        return " ".join(_rich(each, names) for each in dicts(cell.get("elements")))
    return string(cell.get("text"))


def _rich(element: Json, names: Names) -> str:
    inside = dicts(element.get("elements"))
    match element.get("type"):
        case "rich_text_list":
            return _list(element, inside, names)
        case "rich_text_quote":
            return quoted(_inline(inside, names))
        case "rich_text_preformatted":
            return fenced("".join(_written(each, names) for each in inside))
        case _:
            return _inline(inside, names)


def _list(element: Json, inside: list[Json], names: Names) -> str:
    given, offset = element.get("indent"), element.get("offset")
    indent = _INDENT * min(given, _MOST_INDENT) if isinstance(given, int) else ""
    first = offset + 1 if isinstance(offset, int) else 1
    ordered = element.get("style") == "ordered"
    items = (_inline(dicts(each.get("elements")), names) for each in inside)
    return "\n".join(
        hanging(f"{indent}{f'{number}.' if ordered else '-'} ", item)
        for number, item in enumerate(items, start=first)
    )


def _inline(elements: list[Json], names: Names) -> str:
    return "".join(_styled(each, _written(each, names)) for each in elements)


def _styled(element: Json, text: str) -> str:
    """Slack's own marks, so that both ways of writing a message come out alike."""
    style = element.get("style")
    core = text.strip()
    if not isinstance(style, dict) or not core:
        return text
    start = text.index(core)
    marked = coded(core) if style.get("code") and "\n" not in core else core
    for name, mark in _MARKS:
        marked = f"{mark}{marked}{mark}" if style.get(name) else marked
    return f"{text[:start]}{marked}{text[start + len(core) :]}"


def _written(element: Json, names: Names) -> str:
    match element.get("type"):
        case "link":
            return linked(string(element.get("text")), string(element.get("url")))
        case "user":
            return mention(string(element.get("user_id")), names)
        case "channel":
            return channel_reference(string(element.get("channel_id")), names)
        case "usergroup":
            return "@group"
        case "broadcast":
            return f"@{string(element.get('range'))}"
        case "emoji":
            return f":{string(element.get('name'))}:"
        case "date":
            return string(element.get("fallback")) or moment_of(str(element.get("timestamp") or ""))
        case "color":
            return string(element.get("value"))
        case _:
            return string(element.get("text"))

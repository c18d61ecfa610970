"""The text of one Slack message: its text or the blocks shown instead, attachments, files; and its markup.

Nothing is taken for granted of a message, as a day of an export may hold anything: what is not of
the shape that Slack documents is passed over. https://docs.slack.dev/reference/block-kit/blocks
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

from knowledge_pipeline.extraction import markdown
from knowledge_pipeline.text import descend, is_list, is_object, list_objects, replace_surrogates

Json = dict[str, Any]

_UNFURL_KEYS = ("from_url", "original_url")  # what Slack itself adds to a link
_SHARE_KEYS = ("is_share", "is_msg_unfurl")  # of another message: forwarded, or linked to
_CONTROL_BLOCKS = ("actions", "context_actions", "divider")  # which leave the message to its text
_MAX_BLOCK_DEPTH = 5
_STYLE_MARKS = (("strike", "~"), ("italic", "_"), ("bold", "*"))


def render_message(message: Json, names: NameLookup) -> str:
    """Everything that people see of a message, but for who and when; "" where there is nothing."""
    text = to_string(message.get("text"))
    blocks = list_objects(message.get("blocks"))
    composed = any(block.get("type") != "rich_text" for block in blocks)  # then `text` is but a fallback
    body = "" if composed else render_text(text, names)
    if not body.strip() and blocks:
        body = _render_blocks(blocks, names)
    if blocks and all(block.get("type") in _CONTROL_BLOCKS for block in blocks):
        body = "\n\n".join([render_text(text, names), _render_blocks(blocks, names)])
    body = body if body.strip() else render_text(text, names)
    # a preview of a link counts only where there is nothing else
    attachments = list_objects(message.get("attachments"))
    if body.strip():
        attachments = [
            attachment
            for attachment in attachments
            if _is_share(attachment) or not any(attachment.get(name) for name in _UNFURL_KEYS)
        ]
    parts = [
        body,
        *(_render_attachment(attachment, names) for attachment in attachments),
        _render_files(message),
    ]
    return replace_surrogates("\n\n".join(part.strip() for part in parts if part.strip()))


def iter_message_files(message: Json) -> Iterator[Json]:
    """The files of a message, and of the messages that it forwards."""
    yield from list_objects(message.get("files"))
    for attachment in list_objects(message.get("attachments")):
        if _is_share(attachment):
            yield from list_objects(attachment.get("files"))


def _is_share(attachment: Json) -> bool:
    return any(attachment.get(name) for name in _SHARE_KEYS)


def _render_files(message: Json) -> str:
    """The names of files; a snippet's own name says less than its title."""
    shown: list[str] = []
    for file in list_objects(message.get("files")):
        name, title = (" ".join(to_string(file.get(key)).split()) for key in ("name", "title"))
        if file.get("mode") == "snippet" and name and title and title != name:
            shown.append(f"{title} ({name})")
        elif name or title:
            shown.append(name or title)
    return f"Files: {', '.join(shown)}" if shown else ""


def to_string(value: Any) -> str:
    """The value where it is text, else ""."""
    return value if isinstance(value, str) else ""


def _render_attachment(attachment: Json, names: NameLookup) -> str:
    def text_of(key: str) -> str:
        return render_text(to_string(attachment.get(key)), names)

    quoted = (
        descend(part, "message").get("blocks") for part in list_objects(attachment.get("message_blocks"))
    )
    lines = [
        text_of("pretext"),
        text_of("author_name") or text_of("author_subname"),
        markdown.format_link(text_of("title"), text_of("title_link")),
        text_of("text") or "\n\n".join(_render_blocks(list_objects(blocks), names) for blocks in quoted),
        _render_blocks(list_objects(attachment.get("blocks")), names),
        *(
            ": ".join(
                filter(None, (render_text(to_string(field.get(key)), names) for key in ("title", "value")))
            )
            for field in list_objects(attachment.get("fields"))
        ),
        _render_controls(list_objects(attachment.get("actions")), names),
        _render_files(attachment) if _is_share(attachment) else "",
    ]
    shown = [line for line in lines if line.strip()] or [text_of("fallback")]
    footer = text_of("footer")
    return "\n".join([*shown, footer] if footer.strip() else shown)


def _render_blocks(blocks: list[Json], names: NameLookup) -> str:
    parts = (_render_block(block, names) for block in blocks)
    return "\n\n".join(part for part in parts if part.strip())


def _render_block(block: Json, names: NameLookup, depth: int = 0) -> str:
    match block.get("type"):
        case "rich_text":
            return "\n".join(_render_rich_text(part, names) for part in list_objects(block.get("elements")))
        case "section":
            objects = (block.get("text"), *list_objects(block.get("fields")))
            texts = [_render_text_object(part, names) for part in objects]
            accessory = block.get("accessory")
            texts += [_render_controls([accessory], names)] if is_object(accessory) else []
            return "\n".join(filter(None, texts))
        case "context":
            objects = list_objects(block.get("elements"))
            return " ".join(filter(None, (_render_text_object(part, names) for part in objects)))
        case "markdown":  # Markdown already
            return to_string(block.get("text"))
        case "table" | "data_table":
            rows = block.get("rows")
            cells = [list_objects(row) for row in rows] if is_list(rows) else []
            return markdown.format_table([[_render_cell(cell, names) for cell in row] for row in cells])
        case "image" | "video":
            texts = (_render_text_object(block.get("title"), names), to_string(block.get("alt_text")))
            text = next((part for part in texts if part), "")
            return markdown.format_link(text, to_string(block.get("title_url")))
        case "call":
            call = descend(block, "call", "v1")
            return markdown.format_link(to_string(call.get("name")), to_string(call.get("join_url")))
        case _:  # header, input, plan, card, and what is to come
            return _render_parts(block, names, depth)


_TEXT_KEYS = ("title", "subtitle", "label", "text", "body", "hint")
_PART_KEYS = ("details", "output", "tasks", "blocks", "child_blocks")
_CONTROL_KEYS = ("elements", "actions", "sources")


def _render_parts(block: Json, names: NameLookup, depth: int) -> str:
    """What a block says: its texts, then what is inside of it, then where it leads."""
    texts = [_render_text_object(block.get(key), names) for key in _TEXT_KEYS]
    element = block.get("element")
    texts.insert(-1, to_string(element.get("initial_value")) if is_object(element) else "")
    keys = ("elements", *_PART_KEYS) if block.get("type") == "carousel" else _PART_KEYS
    inside = [block.get(key) for key in keys]
    blocks = [part for value in inside for part in ([value] if is_object(value) else list_objects(value))]
    if depth < _MAX_BLOCK_DEPTH:
        texts += [_render_block(part, names, depth + 1) for part in blocks]
    controls = [part for key in _CONTROL_KEYS for part in list_objects(block.get(key))]
    return "\n".join(filter(str.strip, [*texts, _render_controls(controls, names)]))


def _render_controls(controls: list[Json], names: NameLookup) -> str:
    """The links of buttons, of menus and of sources; one that leads nowhere says nothing."""
    choices = [choice for control in controls for choice in (control, *list_objects(control.get("options")))]
    links = (
        (_render_text_object(choice.get("text"), names), to_string(choice.get("url"))) for choice in choices
    )
    return " ".join(markdown.format_link(text, url) for text, url in links if url)


def _render_text_object(element: Any, names: NameLookup) -> str:
    if not is_object(element):
        return to_string(element)  # plain, as the title of a task is
    if element.get("type") == "image":
        return to_string(element.get("alt_text"))
    text = to_string(element.get("text"))
    return text if element.get("type") == "plain_text" else render_text(text, names)


def _render_cell(cell: Json, names: NameLookup) -> str:
    if cell.get("type") == "rich_text":
        return " ".join(_render_rich_text(element, names) for element in list_objects(cell.get("elements")))
    return to_string(cell.get("text"))


def _render_rich_text(element: Json, names: NameLookup) -> str:
    inside = list_objects(element.get("elements"))
    match element.get("type"):
        case "rich_text_list":
            depth, offset = element.get("indent"), element.get("offset")
            indent = "    " * min(depth, 8) if isinstance(depth, int) else ""
            first = offset + 1 if isinstance(offset, int) else 1
            ordered = element.get("style") == "ordered"
            items = (_render_inline(list_objects(list_item.get("elements")), names) for list_item in inside)
            return "\n".join(
                markdown.format_list_item(f"{indent}{f'{number}.' if ordered else '-'} ", item)
                for number, item in enumerate(items, start=first)
            )
        case "rich_text_quote":
            return markdown.format_quote(_render_inline(inside, names))
        case "rich_text_preformatted":
            return markdown.format_code_block("".join(_render_element(inner, names) for inner in inside))
        case _:
            return _render_inline(inside, names)


def _render_inline(elements: list[Json], names: NameLookup) -> str:
    return "".join(_apply_style(element, _render_element(element, names)) for element in elements)


def _apply_style(element: Json, text: str) -> str:
    """Slack's own marks, so that both ways of writing a message come out alike."""
    style = element.get("style")
    core = text.strip()
    if not is_object(style) or not core:
        return text
    start = text.index(core)
    marked = markdown.format_inline_code(core) if style.get("code") and "\n" not in core else core
    for name, mark in _STYLE_MARKS:
        marked = f"{mark}{marked}{mark}" if style.get(name) else marked
    return f"{text[:start]}{marked}{text[start + len(core) :]}"


def _render_element(element: Json, names: NameLookup) -> str:
    match element.get("type"):
        case "link":
            return markdown.format_link(to_string(element.get("text")), to_string(element.get("url")))
        case "user":
            return format_mention(to_string(element.get("user_id")), names)
        case "channel":
            return format_channel(to_string(element.get("channel_id")), names)
        case "usergroup":
            return "@group"
        case "broadcast":
            return f"@{to_string(element.get('range'))}"
        case "emoji":
            return f":{to_string(element.get('name'))}:"
        case "date":
            return to_string(element.get("fallback")) or format_timestamp(str(element.get("timestamp") or ""))
        case "color":
            return to_string(element.get("value"))
        case _:
            return to_string(element.get("text"))


UNKNOWN_PERSON, UNKNOWN_CHANNEL = "someone", "unknown-channel"

_TOKEN = re.compile(r"```(?P<block>.+?)```|`(?P<code>[^`\n]+)`|<(?P<control>[^<>\n]+)>", re.DOTALL)
_CONTROL = re.compile(r"<(?P<control>[^<>\n]+)>")
_URL = re.compile(r"(?i)[a-z][a-z0-9+.-]*:\S")
_PLAIN_SCHEME = re.compile(r"(?i)(?:mailto|tel):")

NameLookup = Callable[[str, str], str | None]
"""The name of a "person" (or a bot) or a "channel" (without `#`) by its id; None: not known."""


def keep_ids(kind: str, id_: str) -> str:
    """Ids in place of names, to compare texts before names are known."""
    return id_


def render_text(text: str, names: NameLookup) -> str:
    """The text as people see it; bold, italic and struck words keep Slack's marks.

    Slack escapes `&`, `<` and `>` in what people write, so that every `<…>` is its own: a mention, a channel,
    a date, a link. https://docs.slack.dev/messaging/formatting-message-text
    """
    parts: list[str] = []
    end = 0
    for token in _TOKEN.finditer(text):
        parts.append(_unescape(text[end : token.start()]))
        end = token.end()
        if token["block"] is not None:
            before = next((part for part in reversed(parts) if part), "")
            parts.append(_render_code_block(token["block"], before, text[end : end + 1]))
        elif token["code"] is not None:
            parts.append(f"`{_render_code(token['code'])}`")
        else:
            parts.append(_render_control(token["control"], names))
    parts.append(_unescape(text[end:]))
    return replace_surrogates("".join(parts))


def format_mention(account: str, names: NameLookup, label: str = "") -> str:
    """`@Ada Lovelace`."""
    return f"@{names('person', account) or label.lstrip('@') or UNKNOWN_PERSON}"


def format_channel(channel_id: str, names: NameLookup, label: str = "") -> str:
    """`#general`."""
    return f"#{names('channel', channel_id) or label.lstrip('#') or UNKNOWN_CHANNEL}"


def _render_code_block(content: str, before: str, after: str) -> str:
    """A fenced block on lines of its own: Slack lets it begin and end in the middle of one."""
    above = "" if not before or before.endswith("\n") else "\n"
    below = "" if not after or after.startswith("\n") else "\n"
    return f"{above}{markdown.format_code_block(_render_code(content))}{below}"


def _render_code(content: str) -> str:
    """Code as it was written: Slack makes links of addresses in it, and of nothing else."""
    parts: list[str] = []
    end = 0
    for link in _CONTROL.finditer(content):
        address, _, label = link["control"].partition("|")
        is_link = _URL.match(address) is not None
        parts += (content[end : link.start()], (label or address) if is_link else link[0])
        end = link.end()
    return _unescape("".join([*parts, content[end:]]))


def _render_control(content: str, names: NameLookup) -> str:
    body, _, label = content.partition("|")
    label = _unescape(label)
    if body.startswith(("@U", "@W", "@B")):
        return format_mention(body[1:], names, label)
    if body.startswith("#"):
        return format_channel(body[1:], names, label)
    if body.startswith("!"):
        kind, *rest = body[1:].split("^")  # `!here`, `!date^1392734382^{date}^https://…`
        if kind == "date":
            text = label or format_timestamp(rest[0] if rest else "")
            return markdown.format_link(text, _unescape(rest[2])) if len(rest) > 2 else text
        if kind == "subteam":
            return f"@{label.lstrip('@') or 'group'}"
        return label or f"@{kind}"
    if _URL.match(body):
        address = _unescape(body)
        plain = _PLAIN_SCHEME.sub("", address)
        if plain == address:
            return markdown.format_link(label, address)
        if label and plain.lower() in (label.lower(), ""):
            return label  # of mail and telephone it says all, as a rule
        return markdown.format_link(label or plain, address)
    return _unescape(f"<{content}>")


def format_timestamp(seconds: str) -> str:
    """A Unix time as a date and time of UTC; what is none stays as it is."""
    try:
        return f"{datetime.fromtimestamp(int(seconds), UTC):%Y-%m-%d %H:%M} UTC"
    except (ValueError, OverflowError, OSError):
        return seconds


def _unescape(text: str) -> str:
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")

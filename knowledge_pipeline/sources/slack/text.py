"""Slack's markup as text for readers: who is mentioned by name, links as Markdown, code as it was written.

Slack escapes `&`, `<` and `>` in what people write, so that every `<…>` is its own: a mention, a
channel, a date, a link. https://docs.slack.dev/messaging/formatting-message-text
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Protocol

from knowledge_pipeline.sources.markdown_writing import format_code_block, format_link

UNKNOWN_PERSON, UNKNOWN_CHANNEL = "someone", "unknown-channel"

_TOKEN = re.compile(r"```(?P<block>.+?)```|`(?P<code>[^`\n]+)`|<(?P<control>[^<>\n]+)>", re.DOTALL)
_CONTROL = re.compile(r"<(?P<control>[^<>\n]+)>")
_URL = re.compile(r"(?i)[a-z][a-z0-9+.-]*:\S")
_PLAIN_SCHEME = re.compile(r"(?i)(?:mailto|tel):")


class NameLookup(Protocol):
    """Names of people and channels by their ids; None: not known."""

    def person_name(self, account: str) -> str | None:
        """The display name of a person or a bot."""
        ...

    def channel_name(self, channel_id: str) -> str | None:
        """The name of a channel, without `#`."""
        ...


class RawIds:
    """Ids in place of names, to compare texts before names are known."""

    def person_name(self, account: str) -> str | None:
        """The id."""
        return account

    def channel_name(self, channel_id: str) -> str | None:
        """The id."""
        return channel_id


def render_text(text: str, names: NameLookup) -> str:
    """The text as people see it; bold, italic and struck words keep Slack's marks."""
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
    return f"@{names.person_name(account) or label.lstrip('@') or UNKNOWN_PERSON}"


def format_channel(channel_id: str, names: NameLookup, label: str = "") -> str:
    """`#general`."""
    return f"#{names.channel_name(channel_id) or label.lstrip('#') or UNKNOWN_CHANNEL}"


def replace_surrogates(text: str) -> str:
    """Text that UTF-8 can hold: JSON may say half of a character."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _render_code_block(content: str, before: str, after: str) -> str:
    """A fenced block on lines of its own: Slack lets it begin and end in the middle of one."""
    above = "" if not before or before.endswith("\n") else "\n"
    below = "" if not after or after.startswith("\n") else "\n"
    return f"{above}{format_code_block(_render_code(content))}{below}"


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
        return _render_special(body[1:], label)
    if _URL.match(body):
        return _render_link(_unescape(body), label)
    return _unescape(f"<{content}>")


def _render_special(body: str, label: str) -> str:
    """`!here`, `!subteam^S123|@authors`, `!date^1392734382^{date}^https://…|Feb 18`."""
    kind, *rest = body.split("^")
    if kind == "date":
        text = label or format_timestamp(rest[0] if rest else "")
        return format_link(text, _unescape(rest[2])) if len(rest) > 2 else text
    if kind == "subteam":
        return f"@{label.lstrip('@') or 'group'}"
    return label or f"@{kind}"


def _render_link(address: str, label: str) -> str:
    plain = _PLAIN_SCHEME.sub("", address)
    if plain == address:
        return format_link(label, address)
    if label and plain.lower() in (label.lower(), ""):
        return label  # of mail and telephone it says all, as a rule
    return format_link(label or plain, address)


def format_timestamp(seconds: str) -> str:
    """A Unix time as a date and time of UTC; what is none stays as it is."""
    try:
        return f"{datetime.fromtimestamp(int(seconds), UTC):%Y-%m-%d %H:%M} UTC"
    except (ValueError, OverflowError, OSError):
        return seconds


def _unescape(text: str) -> str:
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")

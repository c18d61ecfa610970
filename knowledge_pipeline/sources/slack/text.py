"""Slack's markup as text for readers: who is mentioned by name, links as Markdown, code as it was written.

Slack escapes `&`, `<` and `>` in what people write, so that every `<…>` is its own: a mention, a
channel, a date, a link. https://docs.slack.dev/messaging/formatting-message-text
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Protocol

from knowledge_pipeline.sources.markdown_writing import fenced, linked

UNKNOWN_PERSON, UNKNOWN_CHANNEL = "someone", "unknown-channel"

_TOKEN = re.compile(
    r"```(?P<block>.+?)```|`(?P<code>[^`\n]+)`|<(?P<control>[^<>\n]+)>",
    re.DOTALL,
)
_CONTROL = re.compile(r"<(?P<control>[^<>\n]+)>")
_ADDRESS = re.compile(r"(?i)[a-z][a-z0-9+.-]*:\S")
_PLAIN_ADDRESS = re.compile(r"(?i)(?:mailto|tel):")


class Names(Protocol):
    """Names of people and channels by their ids; None: not known."""

    def person(self, account: str) -> str | None:
        """The display name of a person or a bot."""
        ...

    def channel(self, channel_id: str) -> str | None:
        """The name of a channel, without `#`."""
        ...


class Ids:
    """`Names` that are the ids themselves: for comparing texts before names are known."""

    def person(self, account: str) -> str | None:
        """The id."""
        return account

    def channel(self, channel_id: str) -> str | None:
        """The id."""
        return channel_id


def clean(text: str, names: Names) -> str:
    """The text as people see it; bold, italic and struck words keep Slack's marks."""
    parts: list[str] = []
    end = 0
    for token in _TOKEN.finditer(text):
        parts.append(_unescaped(text[end : token.start()]))
        end = token.end()
        if token["block"] is not None:
            before = next((part for part in reversed(parts) if part), "")
            parts.append(_block(token["block"], before, text[end : end + 1]))
        elif token["code"] is not None:
            parts.append(f"`{_code(token['code'])}`")
        else:
            parts.append(_control(token["control"], names))
    parts.append(_unescaped(text[end:]))
    return valid("".join(parts))


def mention(account: str, names: Names, label: str = "") -> str:
    """`@Ada Lovelace`."""
    return f"@{names.person(account) or label.lstrip('@') or UNKNOWN_PERSON}"


def channel_reference(channel_id: str, names: Names, label: str = "") -> str:
    """`#general`."""
    return f"#{names.channel(channel_id) or label.lstrip('#') or UNKNOWN_CHANNEL}"


def valid(text: str) -> str:
    """Text that UTF-8 can hold: JSON may say half of a character."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _block(content: str, before: str, after: str) -> str:
    """A fenced block on lines of its own: Slack lets it begin and end in the middle of one."""
    above = "" if not before or before.endswith("\n") else "\n"
    below = "" if not after or after.startswith("\n") else "\n"
    return f"{above}{fenced(_code(content))}{below}"


def _code(content: str) -> str:
    """Code as it was written: Slack makes links of addresses in it, and of nothing else."""
    parts: list[str] = []
    end = 0
    for link in _CONTROL.finditer(content):
        address, _, label = link["control"].partition("|")
        is_link = _ADDRESS.match(address) is not None
        parts += (content[end : link.start()], (label or address) if is_link else link[0])
        end = link.end()
    return _unescaped("".join([*parts, content[end:]]))


def _control(content: str, names: Names) -> str:
    body, _, label = content.partition("|")
    label = _unescaped(label)
    if body.startswith(("@U", "@W", "@B")):
        return mention(body[1:], names, label)
    if body.startswith("#"):
        return channel_reference(body[1:], names, label)
    if body.startswith("!"):
        return _special(body[1:], label)
    if _ADDRESS.match(body):
        return _link(_unescaped(body), label)
    return _unescaped(f"<{content}>")


def _special(body: str, label: str) -> str:
    """`!here`, `!subteam^S123|@authors`, `!date^1392734382^{date}^https://…|Feb 18`."""
    kind, *rest = body.split("^")
    if kind == "date":
        told = label or moment_of(rest[0] if rest else "")
        return linked(told, _unescaped(rest[2])) if len(rest) > 2 else told
    if kind == "subteam":
        return f"@{label.lstrip('@') or 'group'}"
    return label or f"@{kind}"


def _link(address: str, label: str) -> str:
    plain = _PLAIN_ADDRESS.sub("", address)
    if plain != address:  # of mail and telephone the label says all, as a rule
        return label if label and plain.lower() in (label.lower(), "") else linked(label or plain, address)
    return linked(label, address)


def moment_of(seconds: str) -> str:
    """A Unix time as a date and time of UTC; what is none stays as it is."""
    try:
        return f"{datetime.fromtimestamp(int(seconds), UTC):%Y-%m-%d %H:%M} UTC"
    except (ValueError, OverflowError, OSError):
        return seconds


def _unescaped(text: str) -> str:
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")

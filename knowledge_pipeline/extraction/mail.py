"""E-mail as Markdown: EML files, and MBOX files with a section for each message.

Source: RFC 5322, https://www.rfc-editor.org/rfc/rfc5322; RFC 2045 to 2049 for parts; RFC 4155 for MBOX.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email import message_from_bytes
from email.message import EmailMessage, MIMEPart
from email.policy import EmailPolicy
from email.utils import parseaddr, parsedate_to_datetime
from posixpath import splitext
from typing import Any

from knowledge_pipeline.encodings import find_codec
from knowledge_pipeline.errors import DocumentSkipped
from knowledge_pipeline.extraction.calendars import render_calendar
from knowledge_pipeline.extraction.extraction import extract
from knowledge_pipeline.extraction.html import read_html
from knowledge_pipeline.extraction.text_decoding import (
    MAX_CHARS,
    ExtractedText,
    add_note,
    add_unread,
    decode_bytes,
    decode_text,
)
from knowledge_pipeline.records import Metadata
from knowledge_pipeline.text import is_list

_SHOWN_HEADERS = ("From", "To", "Cc", "Date")
_MAX_ATTACHMENTS = 20  # of a file, that are read; all are named
_MAX_FORMATS = 8  # of those that are not read, counted each by itself
_ENDING = re.compile(r"\.[a-z0-9]{1,8}")
_MAX_DEPTH = 8  # of messages in messages
_MAX_HEADER_CHARS = 1_000
_MESSAGE_TYPES = frozenset({"message/rfc822", "message/global", "message/news"})
_FIELD_TYPES = frozenset(
    {
        *("message/delivery-status", "message/global-delivery-status", "message/disposition-notification"),
        *("message/feedback-report", "message/external-body", "text/rfc822-headers"),
    }
)
_CALENDAR_TYPES = frozenset({"text/calendar", "application/ics"})
_UTF_16 = re.compile(rb"\xff\xfe|\xfe\xff|(?P<little>(?:[!-~]\0){4})|(?P<big>(?:\0[!-~]){4})")


def read_eml(payload: bytes, encoding: str | None = None) -> ExtractedText:
    """One message: its subject, who wrote it to whom and when, its text, and what it attaches."""
    reader = _MailReader(encoding, reads_attachments=True)
    message = reader.parse(_to_eight_bits(payload))
    if not any(name in message for name in ("From", "To", "Subject", "Date", "Received", "Message-ID")):
        raise DocumentSkipped("not an e-mail, though its name says so")
    subject = _subject_of(message)
    text = f"# {subject}\n\n{reader.render(message)}"
    name, address = parseaddr(_header(message, "From"))
    metadata = reader.add_notes({"format": "email"})
    return ExtractedText(text, subject, metadata, "markdown", name or address or None, _date_of(message))


def read_mbox(payload: bytes, encoding: str | None = None) -> ExtractedText:
    """All messages in the order of the file; files attached to them are named, not read."""
    payload = _to_eight_bits(payload)
    if not payload.startswith(b"From "):
        raise DocumentSkipped("not an MBOX file, though its name says so")
    reader = _MailReader(encoding, reads_attachments=False)
    sections: list[str] = []
    chars, newest = 0, None
    for raw in _iter_messages(payload):
        message = reader.parse_or_count(raw)
        sections.append(f"## {_subject_of(message)}\n\n{reader.render(message)}".rstrip())
        newest = max(filter(None, [newest, _date_of(message)]), default=None)
        chars += len(sections[-1])
        if chars > MAX_CHARS:
            break
    if not sections:
        raise DocumentSkipped("MBOX without a message")
    metadata = reader.add_notes({"format": "mbox", "messages": len(sections)})
    return ExtractedText("\n\n".join(sections), "", metadata, "markdown", None, newest)


_SEPARATOR = re.compile(rb"^From ([^\n]{1,300})\n(?=[!-9;-~]{1,100}:)", re.MULTILINE)
_WEEKDAY = re.compile(rb"\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[ ,]")
_TIME_OF_DAY = re.compile(rb"\d\d:\d\d")
_QUOTED_SEPARATOR = re.compile(rb"^>(>{0,100}From )", re.MULTILINE)


def _iter_messages(payload: bytes) -> Iterator[bytes]:
    """Each message after a line such as `From jane Tue Nov  3 10:00:00 2026` that headers follow."""
    lines = [match for match in _SEPARATOR.finditer(payload) if _is_separator(match[1])]
    starts = [(match.start(), match.end()) for match in lines]
    if not starts or starts[0][0] > 0:  # the first is one however it looks
        starts.insert(0, (0, payload.find(b"\n") + 1 or len(payload)))
    for (_, start), (end, _) in zip(starts, [*starts[1:], (len(payload), 0)], strict=True):
        if message := payload[start:end].strip(b"\r\n"):
            yield _QUOTED_SEPARATOR.sub(rb"\1", message)


def _is_separator(line: bytes) -> bool:
    """Whether it says who wrote, and when; a sentence that begins with "From" does not."""
    is_address = b"@" in line and len(line.split()) == 1
    return is_address or (_WEEKDAY.search(line) is not None and _TIME_OF_DAY.search(line) is not None)


def _to_eight_bits(payload: bytes) -> bytes:
    """A file that an editor saved in UTF-16, as UTF-8: headers begin with letters, and have no NUL."""
    if mark := _UTF_16.match(payload):
        label = "utf-16le" if mark["little"] else "utf-16be"
        return decode_text(payload, declared=label).text.encode()
    return payload.removeprefix(b"\xef\xbb\xbf")


_ENCODED_WORD = re.compile(r"=\?(?P<label>[^?*\s]{1,40})(?=(?:\*[^?\s]{0,40})?\?[bq]\?)", re.IGNORECASE)


class _Policy(EmailPolicy):
    """Reads headers whose encoded words have a label that browsers know, and bytes without a label."""

    encoding: str | None = None  # of bytes without a label that are not UTF-8

    def header_fetch_parse(self, name: str, value: str) -> Any:
        """As `EmailPolicy` does."""
        if not value.isascii():
            with suppress(UnicodeEncodeError):
                value = decode_bytes(value.encode("utf-8", "surrogateescape"), self.encoding).text
        return super().header_fetch_parse(name, _ENCODED_WORD.sub(_to_python_label, value))


def _to_python_label(match: re.Match[str]) -> str:
    return f"=?{find_codec(match['label']) or match['label']}"


@dataclass(slots=True)
class _Parts:
    """What a message holds: its texts, and what stands after them."""

    texts: list[str] = field(default_factory=list[str])
    attached: list[str] = field(default_factory=list[str])


class _MailReader:
    """Reads the messages of one file, and counts what it cannot read."""

    def __init__(self, encoding: str | None, *, reads_attachments: bool) -> None:
        self._encoding = encoding
        self._policy: Any = _Policy(encoding=encoding)  # pyright: ignore[reportCallIssue]
        self._room = _MAX_ATTACHMENTS if reads_attachments else 0
        self._unread, self._notes = Counter[str](), Counter[str]()

    def parse(self, payload: bytes) -> EmailMessage:
        """A message. Raises DocumentSkipped: it is broken."""
        try:
            message: Any = message_from_bytes(payload.lstrip(b"\r\n"), policy=self._policy)
        except (RecursionError, ValueError, LookupError) as error:
            raise DocumentSkipped(f"broken e-mail ({type(error).__name__})") from error
        return message

    def parse_or_count(self, payload: bytes) -> EmailMessage:
        """A message, of a broken one its headers: it does not lose the others."""
        try:
            return self.parse(payload)
        except DocumentSkipped:
            self._unread["broken message"] += 1
            return self.parse(
                re.split(rb"\r?\n\r?\n", payload, maxsplit=1)[0] + b"\nContent-Type: text/plain\n"
            )

    def add_notes(self, metadata: Metadata) -> Metadata:
        """The metadata with what was not valid, and what was not read."""
        for note, count in self._notes.items():
            metadata = add_note(metadata, note if count == 1 else f"{note} ({count:,} times)")
        return add_unread(metadata, self._unread)

    def render(self, message: EmailMessage, depth: int = 0) -> str:
        """Headers, texts, and what is attached, without the subject."""
        headers = [f"{name}: {value}" for name in _SHOWN_HEADERS if (value := _header(message, name))]
        parts = _Parts()
        self._collect(message, parts, depth)
        blocks = ["  \n".join(headers), *parts.texts, *parts.attached]
        return "\n\n".join(filter(None, (block.strip() for block in blocks)))

    def _collect(self, part: Any, parts: _Parts, depth: int, *, texts: bool = True, within: str = "") -> None:
        """Read a part, and those in it; without `texts` only what stands beside them."""
        try:
            self._collect_part(part, parts, depth, texts, within)
        except (DocumentSkipped, LookupError, ValueError, AttributeError, TypeError, RecursionError):
            self._unread["broken part"] += 1
            parts.attached.append("(a part could not be read)")

    def _collect_part(self, part: Any, parts: _Parts, depth: int, texts: bool, within: str) -> None:
        kind, children = part.get_content_type(), _children_of(part)
        if kind == "multipart/alternative":
            self._collect_alternatives(children, parts, depth, texts)
        elif kind.startswith("multipart/") and children:
            for at, child in enumerate(children):
                of_page = kind == "multipart/related" and at > 0 and child.get_content_maintype() == "image"
                if not (of_page and within):  # its place in the page describes it
                    self._collect(child, parts, depth, texts=texts, within=kind)
        elif kind in _MESSAGE_TYPES:
            parts.attached.append(self._render_message(part, children, depth))
        elif kind in _FIELD_TYPES:
            parts.attached.append(self._render_fields(part, kind, children))
        elif kind in _CALENDAR_TYPES:
            parts.attached.append(self._render_calendar(part))
        elif _is_text(part, kind) and not (part.get_filename() and (parts.texts or not texts)):
            if texts and (text := self._read_text(part, kind)).strip():
                parts.texts.append(text)
        else:
            parts.attached.append(self._render_attachment(part, depth))

    def _collect_alternatives(self, children: list[Any], parts: _Parts, depth: int, texts: bool) -> None:
        """The text as it was written, else the last of the others that has one; of all what they attach."""
        plain = [child for child in children if child.get_content_type() == "text/plain"]
        others = [child for child in children if child.get_content_type() != "text/plain"]
        for child in (*plain, *reversed(others)):
            chosen = _Parts()
            self._collect(child, chosen, depth, texts=texts, within="multipart/alternative")
            texts = texts and not chosen.texts
            parts.texts += chosen.texts
            parts.attached += chosen.attached

    def _read_text(self, part: MIMEPart, kind: str) -> str:
        payload, declared = _payload_of(part), part.get_content_charset()
        if not payload.strip():
            return ""
        try:
            if kind == "text/html":
                page = read_html(payload, self._encoding, declared)
                text, note = page.text, page.metadata.get("note", "")
            else:
                text, note = decode_text(payload, self._encoding, declared)
        except DocumentSkipped as reason:
            if str(reason) == "empty":
                return ""
            if declared and find_codec(declared) is None:
                self._unread["text"] += 1
                return f"(its text could not be read: {reason})"
            text, note = decode_bytes(payload, declared or self._encoding)
            text = read_html(text.encode(), declared="utf-8").text if kind == "text/html" else text
        self._notes.update(filter(None, [note]))
        return text

    def _render_message(self, part: Any, children: list[Any], depth: int) -> str:
        message = children[0] if children else self.parse(_payload_of(part))
        if str(part.get("Content-Transfer-Encoding", "")).strip().lower() == "base64" and children:
            message = self.parse(b64decode(_payload_of(message)))  # no standard allows it, Exchange writes it
        return self._render_attached(message, depth)

    def _render_attached(self, message: EmailMessage, depth: int) -> str:
        heading = f"### Attached message: {_subject_of(message)}"
        if depth >= _MAX_DEPTH:
            self._unread["attached message"] += 1
            return f"{heading} (not read: {_MAX_DEPTH} messages within each other)"
        return f"{heading}\n\n{self.render(message, depth + 1)}"

    def _render_fields(self, part: MIMEPart, kind: str, children: list[Any]) -> str:
        """What a bounce or a receipt says; of a message that came back without its text its headers."""
        if kind == "text/rfc822-headers":
            children = [self.parse(_payload_of(part))]
            heading, names = "Headers of the returned message", ("Subject", *_SHOWN_HEADERS)
        else:
            heading, names = kind.partition("/")[2].replace("-", " ").capitalize(), None
        blocks = ([(name, _header(child, name)) for name in names or child.keys()] for child in children)
        texts = ("  \n".join(f"{name}: {value}" for name, value in block if value) for block in blocks)
        return "\n\n".join([f"### {heading}", *filter(None, texts)])

    def _render_calendar(self, part: MIMEPart) -> str:
        text, note = decode_bytes(_payload_of(part), part.get_content_charset() or self._encoding)
        self._notes.update(filter(None, [note]))
        return render_calendar(text)

    def _render_attachment(self, part: MIMEPart, depth: int) -> str:
        name = " ".join(str(part.get_filename() or "without a name").split())[:_MAX_HEADER_CHARS]
        heading, extension = f"Attachment: {name}", name.rpartition(".")[2].lower()
        if extension == "eml":
            return self._render_attached(self.parse(_payload_of(part)), depth)
        if extension == "ics" and (calendar := self._render_calendar(part)):
            return calendar
        self._room -= 1
        try:
            if self._room < 0 or "." not in name or extension == "mbox":
                return self._leave_unread(part, heading, name)
            extracted = extract(name, _payload_of(part), self._encoding)
        except DocumentSkipped as reason:
            return self._leave_unread(part, f"{heading} (not read: {reason})", name)
        self._notes.update(filter(None, [extracted.metadata.get("note")]))
        return f"### {heading}\n\n{extracted.text}"

    def _leave_unread(self, part: MIMEPart, text: str, name: str) -> str:
        if not part.get_content_type().endswith("-signature"):  # which says nothing
            ending = splitext(name)[1].lower()
            kind = f"{ending} attachment" if _ENDING.fullmatch(ending) else "attachment"
            is_named = kind in self._unread or len(self._unread) < _MAX_FORMATS
            self._unread[kind if is_named else "attachment"] += 1
        return text


def _is_text(part: MIMEPart, kind: str) -> bool:
    """Whether it is shown, as it is of a multipart that has no parts."""
    return kind.startswith(("text/", "multipart/")) and not part.is_attachment()


def _children_of(part: Any) -> list[Any]:
    payload: Any = part.get_payload()
    return payload if is_list(payload) else []


def _payload_of(part: MIMEPart) -> bytes:
    payload = part.get_payload(decode=True)
    return payload if isinstance(payload, bytes) else b""


def _subject_of(message: EmailMessage) -> str:
    return _header(message, "Subject") or "(no subject)"


def _header(message: EmailMessage, name: str) -> str:
    try:
        return " ".join(str(message.get(name, "")).replace("\ufeff", "").split())[:_MAX_HEADER_CHARS]
    except (ValueError, IndexError, TypeError, AttributeError, LookupError):  # what the parser cannot take
        return ""


def _date_of(message: EmailMessage) -> datetime | None:
    try:
        moment = parsedate_to_datetime(_header(message, "Date"))
    except (ValueError, TypeError, OverflowError):
        return None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)

"""E-mail as Markdown: EML files, and MBOX files with a section for each message.

Source: RFC 5322, https://www.rfc-editor.org/rfc/rfc5322; RFC 4155 for MBOX.
"""

from __future__ import annotations

import mailbox
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from email import message_from_bytes, policy
from email.message import EmailMessage, MIMEPart
from email.utils import parseaddr, parsedate_to_datetime
from pathlib import Path

from knowledge_pipeline.errors import DocumentSkipped
from knowledge_pipeline.extraction.html import read_html
from knowledge_pipeline.extraction.text_decoding import MAX_CHARS, ExtractedText

_SHOWN_HEADERS = ("From", "To", "Cc", "Date")
_MAX_ATTACHMENTS = 20  # of a message, that are read; all are named
_MAX_HEADER_CHARS = 1_000

Extract = Callable[[str, bytes], ExtractedText]
"""As `extraction.extract`: reads an attachment by its name."""


def read_eml(payload: bytes, extract: Extract) -> ExtractedText:
    """One message: its subject, who wrote it to whom and when, its text, and what it attaches."""
    message = _parse_message(payload)
    if not any(name in message for name in ("From", "To", "Subject", "Date", "Received", "Message-ID")):
        raise DocumentSkipped("not an e-mail, though its name says so")
    subject = _header(message, "Subject") or "(no subject)"
    text = f"# {subject}\n\n{_render_message(message, extract)}"
    name, address = parseaddr(_header(message, "From"))
    return ExtractedText(
        text, subject, {"format": "email"}, "markdown", name or address or None, _date_of(message)
    )


def read_mbox(payload: bytes, extract: Extract) -> ExtractedText:
    """All messages in the order of the file."""
    del extract  # attachments of a whole mailbox are named, not read
    if not payload.startswith(b"From "):
        raise DocumentSkipped("not an MBOX file, though its name says so")
    sections: list[str] = []
    chars, newest = 0, None
    for message in _iter_messages(payload):
        sections.append(
            f"## {_header(message, 'Subject') or '(no subject)'}\n\n{_render_message(message, None)}"
        )
        newest = max(filter(None, [newest, _date_of(message)]), default=None)
        chars += len(sections[-1])
        if chars > MAX_CHARS:
            break
    if not sections:
        raise DocumentSkipped("MBOX without a message")
    metadata = {"format": "mbox", "messages": len(sections)}
    return ExtractedText("\n\n".join(sections), "", metadata, "markdown", None, newest)


def _iter_messages(payload: bytes) -> Iterator[EmailMessage]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "messages.mbox"
        path.write_bytes(payload)
        box = mailbox.mbox(path, create=False)
        try:
            for key in box.iterkeys():
                yield _parse_message(box.get_bytes(key))
        finally:
            box.close()


def _parse_message(payload: bytes) -> EmailMessage:
    try:
        message = message_from_bytes(payload, policy=policy.default)
    except (RecursionError, ValueError, LookupError) as error:
        raise DocumentSkipped(f"broken e-mail ({type(error).__name__})") from error
    assert isinstance(message, EmailMessage)
    return message


def _render_message(message: EmailMessage, extract: Extract | None) -> str:
    """Headers, text and attachments of one message."""
    headers = [f"{name}: {value}" for name in _SHOWN_HEADERS if (value := _header(message, name))]
    blocks = ["  \n".join(headers), _read_body(message)]
    try:
        attached = list(message.iter_attachments())
    except (AttributeError, TypeError, KeyError):  # a multipart message whose parts are none
        attached = []
    blocks += (_render_attachment(part, extract if at < _MAX_ATTACHMENTS else None)
               for at, part in enumerate(attached))  # fmt: skip
    return "\n\n".join(filter(None, (block.strip() for block in blocks)))


def _read_body(message: EmailMessage) -> str:
    """The text as it was written, else as a page."""
    try:
        body = message.get_body(preferencelist=("plain", "html"))
        if body is None:
            return ""
        if body.get_content_type() == "text/html":
            return read_html(_payload_of(body)).text
        return str(body.get_content()).replace("\r\n", "\n")
    except (DocumentSkipped, LookupError, ValueError, AttributeError, TypeError, RecursionError):
        return "(its text could not be read)"


def _render_attachment(part: MIMEPart, extract: Extract | None) -> str:
    name = " ".join(str(part.get_filename() or "without a name").split())[:_MAX_HEADER_CHARS]
    heading = f"Attachment: {name}"
    if extract is None or "." not in name or name.lower().endswith((".eml", ".mbox")):
        return heading
    try:
        return f"### {heading}\n\n{extract(name, _payload_of(part)).text}"
    except DocumentSkipped as reason:
        return f"{heading} (not read: {reason})"


def _payload_of(part: MIMEPart) -> bytes:
    payload = part.get_payload(decode=True)
    return payload if isinstance(payload, bytes) else b""


def _header(message: EmailMessage, name: str) -> str:
    try:
        return " ".join(str(message.get(name, "")).split())[:_MAX_HEADER_CHARS]
    except (ValueError, IndexError, TypeError, AttributeError, LookupError):  # what the parser cannot take
        return ""


def _date_of(message: EmailMessage) -> datetime | None:
    try:
        moment = parsedate_to_datetime(_header(message, "Date"))
    except (ValueError, TypeError, OverflowError):
        return None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)

"""What a server writes on stderr: one line for each request and for what goes wrong, as JSON or as text.

No line has the content of a question or of what was found, unless `serve.log_queries` is set, and none
has a token or a path. Every line that is written while a request is answered has the request's id.
"""

from __future__ import annotations

import json
import logging
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, TextIO

from knowledge_pipeline.config.operation import ServeSettings
from knowledge_pipeline.contract.responses import SearchResponse
from knowledge_pipeline.errors import KnowledgeError
from knowledge_pipeline.query.access import Access, Caller
from knowledge_pipeline.serve.observers import AnyAnswer, Observer

ACCESS_LOG = "knowledge_pipeline.access"

_MAX_CHARS = 2_000  # of a question
_MESSAGE_FIELDS = frozenset({"logger", "method", "route", "status", "ms"})  # of a request's line
_MAX_FRAMES = 20  # of a traceback, the innermost ones


@dataclass(slots=True)
class RequestLogEntry:
    """What is known of one request, as far as it has come; of several answers of the first."""

    request_id: str | None = None
    query_id: str | None = None
    token: str | None = None  # its id
    door: str | None = None
    cached: bool | None = None
    degraded: tuple[str, ...] | None = None
    question: str | None = None  # only where content is logged


_access_log = logging.getLogger(ACCESS_LOG)
_current_entry: ContextVar[RequestLogEntry | None] = ContextVar("line", default=None)


@contextmanager
def open_log_entry(request_id: str) -> Iterator[RequestLogEntry]:
    """The line of the request that is answered inside."""
    line = RequestLogEntry(request_id)
    token = _current_entry.set(line)
    try:
        yield line
    finally:
        _current_entry.reset(token)


class LogObserver(Observer):
    """Fills in the line of the request that a question came with."""

    def __init__(self, serve: ServeSettings) -> None:
        self._log_content = serve.log_queries

    def on_identified(self, caller: Caller) -> None:
        """See `Observer`."""
        if line := _current_entry.get():
            line.door, line.token = caller.interface, caller.token

    def on_answered(self, kind: str, text: str, access: Access, answer: AnyAnswer) -> None:
        """See `Observer`."""
        line = _current_entry.get()
        if line is None or line.query_id is not None:
            return
        line.query_id, line.degraded = answer.query_id, answer.degraded
        line.cached = isinstance(answer, SearchResponse) and answer.cached
        if self._log_content:
            line.question = text


def log_request(entry: RequestLogEntry, **fields: Any) -> None:
    """Write a request's line, with what else is known of it."""
    if not _access_log.isEnabledFor(logging.INFO):
        return
    facts = {**asdict(entry), **fields}
    if facts["question"] is None:
        del facts["question"]
    else:
        facts["question"] = redact(facts["question"])
    _access_log.info("%(method)s %(route)s %(status)s, %(ms)s ms", facts, extra={"request": facts})


@contextmanager
def configure_logging(serve: ServeSettings, stream: TextIO | None = None) -> Iterator[None]:
    """Write what is logged inside as the settings say, by default on stderr; other handlers rest.

    What uvicorn, the SDK of MCP and other libraries log goes the same way.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    as_json = serve.log_format == "json" or (serve.log_format is None and not handler.stream.isatty())
    handler.setFormatter((JsonLogFormatter if as_json else TextLogFormatter)(content=serve.log_queries))
    root, ours, access = (logging.getLogger(name) for name in (None, "knowledge_pipeline", ACCESS_LOG))
    before = [(log, log.handlers, log.level, log.propagate) for log in (root, ours, access)]
    root.handlers, ours.handlers, access.handlers = [handler], [], []
    ours.propagate = access.propagate = True
    access.setLevel(logging.INFO)
    try:
        yield
    finally:
        for log, log.handlers, level, log.propagate in before:
            log.setLevel(level)


class JsonLogFormatter(logging.Formatter):
    """One object a line."""

    def __init__(self, *, content: bool) -> None:
        super().__init__()
        self._content = content

    def format(self, record: logging.LogRecord) -> str:
        """See `logging.Formatter`."""
        return json.dumps(build_log_fields(record, content=self._content), ensure_ascii=False, default=str)


class TextLogFormatter(logging.Formatter):
    """Lines that people read; a traceback under its line."""

    def __init__(self, *, content: bool) -> None:
        super().__init__()
        self._content = content

    def format(self, record: logging.LogRecord) -> str:
        """See `logging.Formatter`."""
        facts = build_log_fields(record, content=self._content)
        at, level, frames = facts.pop("at"), facts.pop("level"), facts.pop("frames", ())
        message = str(facts.pop("message", record.getMessage())).replace(
            "\n", "\\n"
        )  # one line, no forged ones
        start = f"{at} {level:<7} {message}"
        if record.name == ACCESS_LOG:
            facts = {name: value for name, value in facts.items() if name not in _MESSAGE_FIELDS}
        rest = " ".join(
            f"{name}={_format_value(value)}" for name, value in facts.items() if value not in (None, ())
        )
        return "\n".join((f"{start} {rest}".rstrip(), *(f"    {frame}" for frame in frames)))


def build_log_fields(record: logging.LogRecord, *, content: bool) -> dict[str, Any]:
    """What a line says, by name.

    Of an exception (`exc_info`, or `raised` among the extras) its type and where it was raised; what it
    says only where content is logged, or where it is told to users anyway or is of the system.
    """
    at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
    facts: dict[str, Any] = {"at": at, "level": record.levelname.lower(), "logger": record.name}
    line = _current_entry.get()
    if isinstance(request := getattr(record, "request", None), dict):
        return facts | request
    facts["message"] = redact(record.getMessage())
    if line:
        facts |= {"request_id": line.request_id, "door": line.door, "token": line.token}
    if error := getattr(record, "raised", None) or (record.exc_info and record.exc_info[1]):
        facts |= {"error": type(error).__name__, "frames": _format_frames(error.__traceback__)}
        if content or isinstance(error, KnowledgeError):
            facts["said"] = redact(str(error))
        elif isinstance(error, OSError):
            facts["said"] = error.strerror
    return facts


def redact(text: str) -> str:
    """The beginning of a text without its secrets: the whole is looked at, so that none is cut in two."""
    from knowledge_pipeline.config.settings import SanitizeSettings
    from knowledge_pipeline.sanitizing.sanitize import sanitize

    return sanitize(text, SanitizeSettings()).text[:_MAX_CHARS]


def _format_frames(trace: TracebackType | None) -> list[str]:
    """Where it happened, without the machine's paths: `module:line function`, the innermost last."""
    found = [
        f"{frame.f_globals.get('__name__', '?')}:{line} {frame.f_code.co_name}"
        for frame, line in traceback.walk_tb(trace)
    ]
    return found[-_MAX_FRAMES:]


def _format_value(value: Any) -> str:
    shown = ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    return json.dumps(shown, ensure_ascii=False) if set(shown) & set(' "\n=') else shown

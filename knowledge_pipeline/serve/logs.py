"""What a server writes to stderr: a line for each request and each problem, as JSON or as text.

No line has the content of a query or of results unless `serve.log_queries` is set, and none has a token or
a path. Every line that is written while a request is answered has the request's id.
"""

from __future__ import annotations

import json
import logging
import sys
import traceback
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TextIO, cast

from knowledge_pipeline.config.operation import ServeSettings
from knowledge_pipeline.contract.responses import SearchResponse
from knowledge_pipeline.errors import KnowledgeError
from knowledge_pipeline.query.access import Access, Caller
from knowledge_pipeline.serve.observers import AnyResponse, Observer

ACCESS_LOG = "knowledge_pipeline.access"

_MAX_CHARS = 2_000  # of a query
_MESSAGE_FIELDS = frozenset({"logger", "method", "route", "status", "duration_ms"})  # of a request's line
_MAX_FRAMES = 20  # of a traceback, the innermost ones


@dataclass
class RequestLogEntry:
    """What is known so far of one request; of several responses, the first counts."""

    request_id: str | None = None
    query_id: str | None = None
    token: str | None = None  # its id
    interface: str | None = None
    cached: bool | None = None
    degraded: tuple[str, ...] | None = None
    query: str | None = None  # only if content is logged


_access_log = logging.getLogger(ACCESS_LOG)
_current_entry: ContextVar[RequestLogEntry | None] = ContextVar("current_entry", default=None)


@contextmanager
def open_log_entry(request_id: str) -> Generator[RequestLogEntry]:
    """The log entry of the request that is answered inside."""
    entry = RequestLogEntry(request_id)
    token = _current_entry.set(entry)
    try:
        yield entry
    finally:
        _current_entry.reset(token)


class LogObserver(Observer):
    """Fills in the log entry of the request that a query came with."""

    def __init__(self, serve: ServeSettings) -> None:
        self._log_content = serve.log_queries

    def on_identified(self, caller: Caller) -> None:
        """See `Observer`."""
        if entry := _current_entry.get():
            entry.interface, entry.token = caller.interface, caller.token

    def on_answered(self, kind: str, text: str, access: Access, answer: AnyResponse) -> None:
        """See `Observer`."""
        entry = _current_entry.get()
        if entry is None or entry.query_id is not None:
            return
        entry.query_id, entry.degraded = answer.query_id, answer.degraded
        entry.cached = isinstance(answer, SearchResponse) and answer.cached
        if self._log_content:
            entry.query = text


def log_request(
    entry: RequestLogEntry, *, method: str, route: str | None, status: int, duration_ms: float
) -> None:
    """Write the line of a request."""
    if not _access_log.isEnabledFor(logging.INFO):
        return
    request = vars(entry) | {"method": method, "route": route, "status": status, "duration_ms": duration_ms}
    del request["query"]
    if entry.query is not None:
        request["query"] = redact(entry.query)
    _access_log.info("%s %s %s, %s ms", method, route, status, duration_ms, extra={"request": request})


@contextmanager
def configure_logging(serve: ServeSettings, stream: TextIO | None = None) -> Generator[None]:
    """Write what is logged inside as the settings say, by default to stderr, in place of other handlers.

    What uvicorn, the SDK of MCP and other libraries log goes there too.
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


class TextLogFormatter(JsonLogFormatter):
    """Lines for people; a traceback follows its line."""

    def format(self, record: logging.LogRecord) -> str:
        """See `logging.Formatter`."""
        log_fields = build_log_fields(record, content=self._content)
        timestamp, level = log_fields.pop("timestamp"), log_fields.pop("level")
        frames = log_fields.pop("frames", ())
        message = str(log_fields.pop("message", record.getMessage())).replace("\n", "\\n")  # no forged lines
        start = f"{timestamp} {level:<7} {message}"
        hidden = _MESSAGE_FIELDS if record.name == ACCESS_LOG else frozenset[str]()
        rest = " ".join(
            f"{name}={_format_value(value)}"
            for name, value in log_fields.items()
            if value not in (None, ()) and name not in hidden
        )
        return "\n".join((f"{start} {rest}".rstrip(), *(f"    {frame}" for frame in frames)))


def build_log_fields(record: logging.LogRecord, *, content: bool) -> dict[str, Any]:
    """The fields of a line.

    Of an exception: its type and where it was raised. Its message is logged only if content is, if users
    see it anyway, or if it is the system's.
    """
    fields: dict[str, Any] = {
        "timestamp": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
        "level": record.levelname.lower(),
        "logger": record.name,
    }
    if isinstance(request := getattr(record, "request", None), dict):
        return fields | request
    fields["message"] = redact(record.getMessage())
    if entry := _current_entry.get():
        fields |= {"request_id": entry.request_id, "interface": entry.interface, "token": entry.token}
    if error := record.exc_info and record.exc_info[1]:
        # without paths: `module:line function`, innermost last
        frames = [
            f"{frame.f_globals.get('__name__', '?')}:{line} {frame.f_code.co_name}"
            for frame, line in traceback.walk_tb(error.__traceback__)
        ]
        fields |= {"error": type(error).__name__, "frames": frames[-_MAX_FRAMES:]}
        if content or isinstance(error, KnowledgeError):
            fields["error_message"] = redact(str(error))
        elif isinstance(error, OSError):
            fields["error_message"] = error.strerror
    return fields


def redact(text: str) -> str:
    """The beginning of a text without its secrets; the whole is searched, so that none is cut in two."""
    from knowledge_pipeline.config.sources import SanitizeSettings
    from knowledge_pipeline.sanitizing.sanitize import sanitize

    return sanitize(text, SanitizeSettings()).text[:_MAX_CHARS]


def _format_value(value: Any) -> str:
    values = cast("Sequence[Any]", value) if isinstance(value, list | tuple) else (value,)
    shown = ",".join(map(str, values))
    return json.dumps(shown, ensure_ascii=False) if set(shown) & set(' "\n=') else shown

"""What a server writes on stderr: one line for each request and for what goes wrong, as JSON or as text.

No line has the content of a question or of what was found, unless `serve.log_content` is set, and none
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

from knowledge_pipeline.config.operation import Serve
from knowledge_pipeline.errors import KnowledgeError
from knowledge_pipeline.query.access import Access, Caller
from knowledge_pipeline.query.search.assemble import Answer
from knowledge_pipeline.serve.observers import Observer, Told

ACCESS_LOG = "knowledge_pipeline.access"

_MOST_CHARS = 2_000  # of a question
_IN_MESSAGE = frozenset({"logger", "method", "route", "status", "ms"})  # of a request's line
_FRAMES = 20  # of a traceback, the innermost ones


@dataclass(slots=True)
class Line:
    """What is known of one request, as far as it has come; of several answers of the first."""

    request_id: str | None = None
    query_id: str | None = None
    token: str | None = None  # its id
    door: str | None = None
    cached: bool | None = None
    degraded: tuple[str, ...] | None = None
    question: str | None = None  # only where content is logged


_access = logging.getLogger(ACCESS_LOG)
_line: ContextVar[Line | None] = ContextVar("line", default=None)


@contextmanager
def line_of(request_id: str) -> Iterator[Line]:
    """The line of the request that is answered inside."""
    line = Line(request_id)
    token = _line.set(line)
    try:
        yield line
    finally:
        _line.reset(token)


class Lines(Observer):
    """Fills in the line of the request that a question came with."""

    def __init__(self, serve: Serve) -> None:
        self._content = serve.log_content

    def identified(self, caller: Caller) -> None:
        """See `Observer`."""
        if line := _line.get():
            line.door, line.token = caller.door, caller.token

    def heard(self, kind: str, text: str, access: Access, answer: Told) -> None:
        """See `Observer`."""
        line = _line.get()
        if line is None or line.query_id is not None:
            return
        line.query_id, line.degraded = answer.query_id, answer.degraded
        line.cached = isinstance(answer, Answer) and answer.cached
        if self._content:
            line.question = text


def tell(line: Line, **more: Any) -> None:
    """Write a request's line, with what else is known of it."""
    if not _access.isEnabledFor(logging.INFO):
        return
    facts = {**asdict(line), **more}
    if facts["question"] is None:
        del facts["question"]
    else:
        facts["question"] = redacted(facts["question"])
    _access.info("%(method)s %(route)s %(status)s, %(ms)s ms", facts, extra={"request": facts})


@contextmanager
def written(serve: Serve, stream: TextIO | None = None) -> Iterator[None]:
    """Write what is logged inside as the settings say, by default on stderr; other handlers rest.

    What uvicorn, the SDK of MCP and other libraries log goes the same way.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    as_json = serve.log == "json" or (serve.log is None and not handler.stream.isatty())
    handler.setFormatter((JsonLines if as_json else TextLines)(content=serve.log_content))
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


class JsonLines(logging.Formatter):
    """One object a line."""

    def __init__(self, *, content: bool) -> None:
        super().__init__()
        self._content = content

    def format(self, record: logging.LogRecord) -> str:
        """See `logging.Formatter`."""
        return json.dumps(told(record, content=self._content), ensure_ascii=False, default=str)


class TextLines(logging.Formatter):
    """Lines that people read; a traceback under its line."""

    def __init__(self, *, content: bool) -> None:
        super().__init__()
        self._content = content

    def format(self, record: logging.LogRecord) -> str:
        """See `logging.Formatter`."""
        facts = told(record, content=self._content)
        at, level, frames = facts.pop("at"), facts.pop("level"), facts.pop("frames", ())
        message = str(facts.pop("message", record.getMessage())).replace(
            "\n", "\\n"
        )  # one line, no forged ones
        start = f"{at} {level:<7} {message}"
        if record.name == ACCESS_LOG:
            facts = {name: value for name, value in facts.items() if name not in _IN_MESSAGE}
        rest = " ".join(f"{name}={_plain(value)}" for name, value in facts.items() if value not in (None, ()))
        return "\n".join((f"{start} {rest}".rstrip(), *(f"    {frame}" for frame in frames)))


def told(record: logging.LogRecord, *, content: bool) -> dict[str, Any]:
    """What a line says, by name.

    Of an exception (`exc_info`, or `raised` among the extras) its type and where it was raised; what it
    says only where content is logged, or where it is told to users anyway or is of the system.
    """
    at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
    facts: dict[str, Any] = {"at": at, "level": record.levelname.lower(), "logger": record.name}
    line = _line.get()
    if isinstance(request := getattr(record, "request", None), dict):
        return facts | request
    facts["message"] = redacted(record.getMessage())
    if line:
        facts |= {"request_id": line.request_id, "door": line.door, "token": line.token}
    if error := getattr(record, "raised", None) or (record.exc_info and record.exc_info[1]):
        facts |= {"error": type(error).__name__, "frames": _frames(error.__traceback__)}
        if content or isinstance(error, KnowledgeError):
            facts["said"] = redacted(str(error))
        elif isinstance(error, OSError):
            facts["said"] = error.strerror
    return facts


def redacted(text: str) -> str:
    """The beginning of a text without its secrets: the whole is looked at, so that none is cut in two."""
    from knowledge_pipeline.config.settings import Sanitize
    from knowledge_pipeline.sanitizing.sanitize import sanitize

    return sanitize(text, Sanitize()).text[:_MOST_CHARS]


def _frames(trace: TracebackType | None) -> list[str]:
    """Where it happened, without the machine's paths: `module:line function`, the innermost last."""
    found = [
        f"{frame.f_globals.get('__name__', '?')}:{line} {frame.f_code.co_name}"
        for frame, line in traceback.walk_tb(trace)
    ]
    return found[-_FRAMES:]


def _plain(value: Any) -> str:
    shown = ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    return json.dumps(shown, ensure_ascii=False) if set(shown) & set(' "\n=') else shown

"""Exit codes, and how an error is told: one sentence on stderr, or one line of JSON there.

0    done
1    a source failed and the others are done, or a command could not do its work
2    the command line or `knowledge.yaml` is wrong
3    there is no such source, chunk, document or release
4    unavailable or busy for the moment: the same command may work later
130  interrupted
"""

from __future__ import annotations

import json
import os
import sys
import threading
import traceback
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import typer

from knowledge_pipeline.cli.render.terminal_text import escape_controls, escape_json, one_line, truncate
from knowledge_pipeline.errors import (
    ConfigError,
    InvalidQuery,
    KnowledgeError,
    NotFound,
    TransientError,
)

SUCCESS, FAILED, WRONG_USAGE, NOT_FOUND, TEMPORARY_FAILURE, INTERRUPTED = 0, 1, 2, 3, 4, 130

_interrupt_reported = threading.Event()
_INTERRUPTED_MESSAGE = "interrupted: what was finished is kept; run the same command again to go on"


def exit_code_of(error: BaseException) -> int:
    """The exit code that an error leads to."""
    match error:
        case typer.TyperException():
            return error.exit_code
        case ConfigError() | InvalidQuery():
            return WRONG_USAGE
        case NotFound():
            return NOT_FOUND
        case TransientError():
            return TEMPORARY_FAILURE
        case _:
            return FAILED


def exit_code_of_failures(errors: Iterable[KnowledgeError]) -> int:
    """The exit code of a command over several sources, of which these failed."""
    codes = {TEMPORARY_FAILURE if isinstance(error, TransientError) else FAILED for error in errors}
    return min(codes, default=SUCCESS)


def report_error(error: BaseException, arguments: Sequence[str]) -> int:
    """Report an error as the command line asked for, and return the exit code."""
    flags = parse_flags(arguments)
    code = exit_code_of(error)
    sentence, trace = _format_expected_error(error), "".join(traceback.format_exception(error))
    if "--debug" in flags and not isinstance(error, (KnowledgeError, typer.TyperException)):
        sys.stderr.write(escape_controls(trace))
    elif sentence is None:
        sentence = (
            f"{_format_unexpected_error(error)}; this may be a bug: {_describe_traceback_location(trace)}"
        )
    sentence = sentence or _format_unexpected_error(error)
    print_error(sentence, kind=type(error).__name__, code=code, as_json="--json" in flags)
    return code


def report_interrupted(arguments: Sequence[str]) -> int:
    """Report, once, that the person stopped the command."""
    if _interrupt_reported.is_set():
        return INTERRUPTED
    _interrupt_reported.set()
    as_json = "--json" in parse_flags(arguments)
    print_error(_INTERRUPTED_MESSAGE, kind="Interrupted", code=INTERRUPTED, as_json=as_json)
    return INTERRUPTED


def print_error(message: str, *, kind: str, code: int, as_json: bool) -> None:
    """Write one error to stderr."""
    if as_json:
        told = json.dumps({"error": message, "kind": kind, "exit_code": code}, ensure_ascii=False)
        line = escape_json(told)
    else:
        line = f"error: {escape_controls(message)}"
    print(line, file=sys.stderr, flush=True)  # noqa: T201 - the one place that tells errors


def parse_flags(arguments: Sequence[str]) -> set[str]:
    """The arguments before `--`: an error may come before they are parsed."""
    given = list(arguments)
    return set(given[: given.index("--")] if "--" in given else given)


def format_error(error: BaseException) -> str:
    """What to tell of any error where the work goes on; its traceback is not kept."""
    return _format_expected_error(error) or _format_unexpected_error(error)


def _format_expected_error(error: BaseException) -> str | None:
    """What a person can act on; None for what nobody foresaw."""
    if isinstance(error, typer.TyperException):
        context = getattr(error, "ctx", None)
        hint = f": see `{context.command_path} --help`" if context else ""
        return one_line(error.format_message()).rstrip(".") + hint
    if isinstance(error, KnowledgeError):
        return str(error)
    if isinstance(error, typer.Abort):
        return "nothing was done"
    if isinstance(error, OSError) and error.errno is not None:
        named = f"{error.filename}: " if error.filename else ""
        return f"{named}{error.strerror}: check the disk and its permissions, then run the command again"
    return None


def _format_unexpected_error(error: BaseException) -> str:
    return f"unexpected {type(error).__name__}: {truncate(one_line(str(error)), 300)}"


def _describe_traceback_location(trace: str) -> str:
    kept = _write_traceback(trace)
    return f"the traceback is in {kept}" if kept else "run it again with --debug for the traceback"


def _write_traceback(trace: str) -> Path | None:
    """Where the traceback was written, readable by this user alone; None where nothing can be."""
    from platformdirs import user_log_path

    with suppress(OSError):
        path = user_log_path("knowledge-pipeline", appauthor=False, ensure_exists=True) / "last-error.txt"
        path.unlink(missing_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(trace)
        return path
    return None

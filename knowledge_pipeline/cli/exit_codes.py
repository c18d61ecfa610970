"""Exit codes, and how an error is reported: one sentence on stderr, or one line of JSON there.

0    done
1    a source failed and the others are done, or the command failed
2    the command line or `knowledge.yaml` is wrong
3    there is no such source, chunk, document or release
4    temporarily unavailable or busy: the same command may work later
130  interrupted
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType

import typer

from knowledge_pipeline.cli.screen import escape_controls, escape_json, one_line
from knowledge_pipeline.errors import ConfigError, InvalidQuery, KnowledgeError, NotFound, TransientError
from knowledge_pipeline.extras import to_expected_error
from knowledge_pipeline.text import truncate

SUCCESS, FAILED, WRONG_USAGE, NOT_FOUND, TEMPORARY_FAILURE, INTERRUPTED = 0, 1, 2, 3, 4, 130

_interrupt_reported = threading.Event()  # of this process: the handler and the command may both report


def exit_code_of(error: BaseException) -> int:
    """The exit code of an error."""
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
    flags, error = parse_flags(arguments), to_expected_error(error)
    code = exit_code_of(error)
    sentence, trace = _format_expected_error(error), "".join(traceback.format_exception(error))
    if "--debug" in flags and not isinstance(error, (KnowledgeError, typer.TyperException)):
        sys.stderr.write(escape_controls(trace))
    elif sentence is None:
        path = _write_traceback(trace)
        remedy = f"the traceback is in {path}" if path else "run it again with --debug for the traceback"
        sentence = f"{_format_unexpected_error(error)}; this may be a bug: {remedy}"
    sentence = sentence or _format_unexpected_error(error)
    print_error(sentence, kind=type(error).__name__, code=code, as_json="--json" in flags)
    return code


def report_interrupted(arguments: Sequence[str]) -> int:
    """Report, once, that the command was interrupted."""
    if _interrupt_reported.is_set():
        return INTERRUPTED
    _interrupt_reported.set()
    as_json = "--json" in parse_flags(arguments)
    message = "interrupted: what was finished is kept; run the same command again to continue"
    print_error(message, kind="Interrupted", code=INTERRUPTED, as_json=as_json)
    return INTERRUPTED


def print_error(message: str, *, kind: str, code: int, as_json: bool) -> None:
    """Write one error to stderr."""
    if as_json:
        error = {"error": message, "kind": kind, "exit_code": code}
        line = escape_json(json.dumps(error, ensure_ascii=False))
    else:
        line = f"error: {escape_controls(message)}"
    print(line, file=sys.stderr, flush=True)  # noqa: T201 - the one place that prints errors


def parse_flags(arguments: Sequence[str]) -> set[str]:
    """The arguments before `--`: an error may come before they are parsed."""
    words = list(arguments)
    return set(words[: words.index("--")] if "--" in words else words)


def format_error(error: BaseException) -> str:
    """The sentence for any error after which the work continues; its traceback is not kept."""
    error = to_expected_error(error)
    return _format_expected_error(error) or _format_unexpected_error(error)


def _format_expected_error(error: BaseException) -> str | None:
    """The sentence for an error that a person can act on; None for any other."""
    if isinstance(error, typer.TyperException):
        context = getattr(error, "ctx", None)
        hint = f": see `{context.command_path} --help`" if context else ""
        return one_line(error.format_message()).rstrip(".") + hint
    if isinstance(error, KnowledgeError):
        return str(error)
    if isinstance(error, typer.Abort):
        return "nothing was done"
    if isinstance(error, OSError) and error.errno is not None:
        file = f"{error.filename}: " if error.filename else ""
        return f"{file}{error.strerror}: check the disk and its permissions, then run the command again"
    from knowledge_pipeline.store.damage import (
        describe_unforeseen,
    )  # a command that succeeds need not have it

    return describe_unforeseen(error) or None


def _format_unexpected_error(error: BaseException) -> str:
    return f"unexpected {type(error).__name__}: {truncate(one_line(str(error)), 300)}"


def _write_traceback(trace: str) -> Path | None:
    """The file, readable by this user only; None if it cannot be written."""
    from platformdirs import user_log_path

    with suppress(OSError):
        path = user_log_path("knowledge-pipeline", appauthor=False, ensure_exists=True) / "last-error.txt"
        path.unlink(missing_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(trace)
        return path
    return None


GRACE_S = 3.0


def install_interrupt_handler(arguments: Sequence[str]) -> None:
    """Make the first Ctrl-C interrupt; the process ends at the second, or after a grace period.

    Requests in flight and threads of libraries may keep a process alive for a minute. Every stage can be
    killed at any moment, so such a process is.
    """
    interrupted = threading.Event()

    def on_interrupt(number: int, frame: FrameType | None) -> None:
        if interrupted.is_set():
            _exit_now(arguments)
        interrupted.set()
        timer = threading.Timer(GRACE_S, _exit_now, (arguments,))
        timer.daemon = True
        timer.start()
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, on_interrupt)


def restore_interrupt_handler() -> None:
    """Make Ctrl-C only interrupt, while waiting for a program that receives it too."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _exit_now(arguments: Sequence[str]) -> None:
    if sys.stderr.isatty():
        sys.stderr.write("\x1b[?25h")  # shows the cursor, which a progress bar hides
    report_interrupted(arguments)
    os._exit(INTERRUPTED)

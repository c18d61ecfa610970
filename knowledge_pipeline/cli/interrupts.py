"""Ctrl-C ends a command soon, whatever it is waiting for.

Requests in flight and threads of libraries may keep a process alive for a minute. Every
stage may be killed at any moment, so what is still going after a short grace is.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Sequence
from types import FrameType

from knowledge_pipeline.cli.exit_codes import INTERRUPTED, report_interrupted

GRACE_S = 3.0

_SHOW_CURSOR = "\x1b[?25h"  # a progress bar hides it


def install_interrupt_handler(arguments: Sequence[str]) -> None:
    """From now on the first Ctrl-C interrupts, and after a grace, or at the second, the process ends."""
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
    """From now on Ctrl-C only interrupts: for waiting for a program that has seen it too."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _exit_now(arguments: Sequence[str]) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(_SHOW_CURSOR)
    report_interrupted(arguments)
    os._exit(INTERRUPTED)

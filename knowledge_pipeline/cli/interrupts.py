"""Ctrl-C ends a command soon, whatever it is waiting for.

Requests in flight and threads of libraries may keep a process alive for a minute. Every
stage can be killed at any moment, so a process that survives a short grace period is.
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


def install_interrupt_handler(arguments: Sequence[str]) -> None:
    """Make the first Ctrl-C interrupt; the process ends at the second, or after a grace period."""
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

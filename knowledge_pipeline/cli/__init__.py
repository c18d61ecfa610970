"""The command line `knowledge`: parse, call one function, print.

Nothing heavy is imported before a command runs, so that `knowledge --help` and shell
completion are quick: no torch, lancedb, pyarrow, pydantic or rich at the top of a module here.
"""

from __future__ import annotations

import atexit
import gc
import io
import os
import sys
import threading
from typing import NoReturn


def tune_interpreter() -> None:
    """Make imports quick; call it before them."""
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # it would search every package for some
    gc.disable()  # until a command starts that takes long: imports leave no garbage, and looking takes time


def main() -> NoReturn:
    """Run the command that `sys.argv` names, and exit with its code."""
    tune_interpreter()
    from knowledge_pipeline.cli.app import app
    from knowledge_pipeline.cli.exit_codes import install_interrupt_handler

    if isinstance(sys.stdout, io.TextIOWrapper):  # a terminal that cannot show a character gets its number
        sys.stdout.reconfigure(errors="backslashreplace")  # pyright: ignore[reportUnknownMemberType] - narrowed
    install_interrupt_handler(sys.argv[1:])
    try:
        app()
    except SystemExit as ended:
        _exit_at_once(ended)
        raise
    raise SystemExit


def _exit_at_once(ended: SystemExit) -> None:
    """End the process as Python does, but for the freeing of memory, which takes a quarter of a second.

    Threads are waited for and exit handlers run. Returns where output cannot be written: Python says so.
    """
    from knowledge_pipeline.cli.exit_codes import INTERRUPTED

    if not isinstance(ended.code, int):
        return
    try:
        threading._shutdown()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]  # no public name
        atexit._run_exitfuncs()  # pyright: ignore[reportPrivateUsage]  # nor this
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        return
    except KeyboardInterrupt:
        os._exit(INTERRUPTED)
    os._exit(ended.code)

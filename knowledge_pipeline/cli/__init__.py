"""The command line `knowledge`: parse, call one function, print.

Nothing heavy is imported before a command runs, so that `knowledge --help` and shell
completion are quick: no torch, lancedb, pyarrow, pydantic or rich at the top of a module here.
"""

from __future__ import annotations

import io
import sys


def main() -> None:
    """Run the command that `sys.argv` names, and exit with its code."""
    from knowledge_pipeline.cli.app import app
    from knowledge_pipeline.cli.interrupts import install_interrupt_handler

    if isinstance(sys.stdout, io.TextIOWrapper):  # a terminal that cannot show a character gets its number
        sys.stdout.reconfigure(errors="backslashreplace")  # pyright: ignore[reportUnknownMemberType] - narrowed
    install_interrupt_handler(sys.argv[1:])
    app()

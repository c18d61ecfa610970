"""The same refresh through Dagster, in a process of its own: the command line does not import Dagster."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from knowledge_pipeline import errors
from knowledge_pipeline.cli.exit_codes import FAILED, INTERRUPTED, SUCCESS, print_error
from knowledge_pipeline.cli.interrupts import restore_interrupt_handler
from knowledge_pipeline.cli.session import Session
from knowledge_pipeline.errors import ConfigError, KnowledgeError

if TYPE_CHECKING:
    from knowledge_pipeline.stages.context import RefreshOptions

_RECORD_MODULE = "knowledge_pipeline.defs.runs.refresh_command"


def run_recorded_refresh(session: Session, sources: Sequence[str], options: RefreshOptions) -> int:
    """Refresh sources as a recorded run, and return the exit code.

    Raises:
        ConfigError: Dagster is not installed.
        KnowledgeError: what kept the run from starting.
    """
    if find_spec("dagster") is None:
        raise ConfigError(
            "--dagster needs Dagster, which is not installed: pip install 'knowledge-pipeline[dagster]'"
        )
    session.screen.print_note(f"Recording {len(sources)} sources in Dagster")
    code, answer = _run_record_command(
        {"config": str(session.config_path), "sources": list(sources), "options": asdict(options)}
    )
    if code == INTERRUPTED:
        return INTERRUPTED
    if answer is None:
        raise KnowledgeError(f"the recorded run ended with exit code {code}: its messages are above")
    if "error" in answer:
        raise getattr(errors, answer["kind"], KnowledgeError)(answer["error"])
    return _show_answer(session, answer)


def _show_answer(session: Session, answer: dict[str, Any]) -> int:
    if session.as_json:
        session.screen.print_json(answer)
    else:
        if answer["failure"]:
            print_error(answer["failure"], kind="", code=FAILED, as_json=False)
        session.screen.print_text(f"The run is recorded: `dagster dev` shows it as {answer['run'][:8]}.")
    return FAILED if answer["failure"] else SUCCESS


def _run_record_command(request: dict[str, Any]) -> tuple[int, dict[str, Any] | None]:
    """Run the program to its end, even when interrupted; its exit code and its answer."""
    command = [sys.executable, "-m", _RECORD_MODULE, json.dumps(request)]
    restore_interrupt_handler()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:  # noqa: S603 - our own module
        while True:
            try:
                printed, _ = child.communicate()
                break
            except KeyboardInterrupt:
                if not sys.stdin.isatty():  # a terminal has told the child already
                    child.send_signal(signal.SIGINT)
    code = INTERRUPTED if child.returncode == -signal.SIGINT else child.returncode
    return code, json.loads(printed) if code == SUCCESS else None

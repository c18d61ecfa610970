"""Refresh through Dagster in a process of its own: the command line does not import Dagster."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from knowledge_pipeline import errors
from knowledge_pipeline.cli.exit_codes import FAILED, INTERRUPTED, SUCCESS, print_error
from knowledge_pipeline.cli.interrupts import restore_interrupt_handler
from knowledge_pipeline.cli.session import Session
from knowledge_pipeline.errors import KnowledgeError
from knowledge_pipeline.extras import require_modules

if TYPE_CHECKING:
    from knowledge_pipeline.stages.context import RefreshOptions

_RECORD_MODULE = "knowledge_pipeline.defs.runs.refresh_command"


def run_recorded_refresh(session: Session, sources: Sequence[str], options: RefreshOptions) -> int:
    """Refresh sources as a recorded run, and return the exit code; raises what kept it from starting."""
    require_modules("--dagster", "dagster")
    session.screen.print_note(f"Recording {len(sources)} sources in Dagster")
    request = {"config": str(session.config_path), "sources": list(sources), "options": options.as_config()}
    code, printed = _run_to_the_end([sys.executable, "-m", _RECORD_MODULE, json.dumps(request)])
    if code == INTERRUPTED:
        return INTERRUPTED
    if code != SUCCESS:
        raise KnowledgeError(f"the recorded run ended with exit code {code}: see its messages above")
    response = json.loads(printed)
    if "error" in response:
        raise getattr(errors, response["kind"], KnowledgeError)(response["error"])
    failure = response["failure"]
    session.screen.print_json(response)
    if failure and not session.as_json:
        print_error(failure, kind="", code=FAILED, as_json=False)
    session.screen.print_text(f"The run is recorded: `dagster dev` shows it as {response['run'][:8]}.")
    return FAILED if failure else SUCCESS


def _run_to_the_end(command: list[str]) -> tuple[int, str]:
    """Run a program to its end, even when interrupted; its exit code and its output."""
    restore_interrupt_handler()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:  # noqa: S603 - our own module
        while True:
            try:
                printed, _ = child.communicate()
                break
            except KeyboardInterrupt:
                if not sys.stdin.isatty():  # a terminal has interrupted the child already
                    child.send_signal(signal.SIGINT)
    return INTERRUPTED if child.returncode == -signal.SIGINT else child.returncode, printed

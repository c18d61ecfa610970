"""The program behind `knowledge refresh --dagster`: one request as JSON in, one answer as JSON out.

The command line does not import Dagster, so it runs this module in a process of its own.
Only the answer is written to stdout; whatever else is printed goes to stderr.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any, TextIO

from knowledge_pipeline.defs.assets import RefreshConfig
from knowledge_pipeline.defs.runs.recorded_refresh import record_refresh
from knowledge_pipeline.errors import KnowledgeError


def handle_request(request: dict[str, Any]) -> dict[str, Any]:
    """Carry a request out: `config`, `sources`, and the fields of `RefreshConfig`.

    Returns:
        `run`, and `failure` in a sentence or null; or `error` and its `kind`.
    """
    config = Path(request.pop("config"))
    sources = request.pop("sources")
    try:
        recorded = record_refresh(config, sources, RefreshConfig(**request))
    except KnowledgeError as error:
        return {"error": str(error), "kind": type(error).__name__}
    return {"run": recorded.run_id, "failure": recorded.failure}


def _redirect_stdout() -> TextIO:
    """The real stdout; what others print to stdout from now on goes to stderr."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return answers


if __name__ == "__main__":
    with _redirect_stdout() as answers:
        json.dump(handle_request(json.loads(sys.argv[1])), answers)

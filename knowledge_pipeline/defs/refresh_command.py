"""The program behind `knowledge refresh --dagster`: one JSON request in, one JSON response out.

The command line does not import Dagster, so it runs this module in a process of its own.
Only the response goes to stdout; whatever else is printed goes to stderr.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

from knowledge_pipeline.defs.recorded_refresh import record_refresh
from knowledge_pipeline.errors import KnowledgeError
from knowledge_pipeline.stages.context import RefreshOptions


def handle_request(request: dict[str, Any]) -> dict[str, Any]:
    """Carry out a request: `config`, `sources`, and `options` with the fields of `RefreshOptions`.

    Returns:
        `run`, `failure` in a sentence or null, and `failures` by source; or `error` and its `kind`.
    """
    options = RefreshOptions(**request["options"])
    try:
        recorded = record_refresh(Path(request["config"]), request["sources"], options)
    except KnowledgeError as error:
        return {"error": str(error), "kind": type(error).__name__}
    return {"run": recorded.run_id, "failure": recorded.failure, "failures": list(recorded.failures)}


if __name__ == "__main__":
    with os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8") as stdout:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # where others print from now on
        json.dump(handle_request(json.loads(sys.argv[1])), stdout)

"""`python -m knowledge_pipeline.cli.prepared`: runs the command whose arguments a line of stdin has, as JSON.

It imports what a refresh needs before it reads them. A server starts it when an event comes, and tells it
what to refresh once it has gathered the others: the imports take as long as the refresh of some documents.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module

from knowledge_pipeline.cli import main, tune_interpreter

_MODULES = (
    "lance",
    "knowledge_pipeline.cli.app",
    "knowledge_pipeline.cli.refresh",
    "knowledge_pipeline.cli.progress",
    "knowledge_pipeline.cli.refresh",
    "knowledge_pipeline.config.file",
    "knowledge_pipeline.stages.pipeline",
    "knowledge_pipeline.extensions.questions",
    "knowledge_pipeline.stages.unchanged",
)
"""What each refresh imports, whatever its sources are."""

if __name__ == "__main__":
    tune_interpreter()
    for name in _MODULES:
        import_module(name)
    line = sys.stdin.readline()
    if not line:  # who started it is gone, or has nothing to do
        sys.exit()
    sys.argv = ["knowledge", *json.loads(line)]
    main()

"""`python -m knowledge_pipeline.cli` is `knowledge`."""

from __future__ import annotations

from knowledge_pipeline.cli import main

main()

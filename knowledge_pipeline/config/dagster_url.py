"""The address of the Dagster UI, where people open it."""

from __future__ import annotations

import os

URL_VARIABLE = "KNOWLEDGE_DAGSTER_URL"


def build_run_url(run_id: str) -> str | None:
    """The page of a run; None where the environment does not say where the UI is."""
    base = os.environ.get(URL_VARIABLE, "").rstrip("/")
    return f"{base}/runs/{run_id}" if base else None

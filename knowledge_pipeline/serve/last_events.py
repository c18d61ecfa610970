"""Reads the last event of each source, which servers of this machine keep beside their refreshes.

The command line reads them too, and imports nothing heavier than SQLite for it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from knowledge_pipeline.store.shared_state import SharedState

EVENT = "event"
"""The kind of their entries; the keys are sources."""


def list_last_events(refreshes: Path) -> list[dict[str, Any]]:
    """The fields of `LastEvent`, and the source, in order; none where no event has come.

    Args:
        refreshes: the folder of the refreshes that servers were asked for.

    Raises:
        StoreUnavailable: they cannot be read.
    """
    folder = refreshes / "history"
    if not folder.exists():
        return []
    state = SharedState(folder)
    try:
        events = [json.loads(value) for value in state.list_values(EVENT)]
    finally:
        state.close()
    names = ("source", "service", "kind", "at", "state", "error")
    return sorted(({name: each[name] for name in names} for each in events), key=lambda each: each["source"])

"""The log of calls to language models and their cost: rows of `llm_calls`, written in the background."""

from __future__ import annotations

from knowledge_pipeline.llm.model_calls import ModelCall
from knowledge_pipeline.query.log.row_writer import CLOSE_S, FLUSH_INTERVAL_S, RowWriter
from knowledge_pipeline.store.lake import Lake

_PROVIDER = "openai"  # the protocol, as in the settings of embeddings


class ModelCallLog:
    """Logs the completions of one process in one store. Threads may share it."""

    def __init__(self, lake: Lake, *, flush_interval_s: float = FLUSH_INTERVAL_S) -> None:
        self._rows = RowWriter(
            lake, "llm_calls", subject="calls of the language model", flush_interval_s=flush_interval_s
        )

    def record(self, call: ModelCall) -> None:
        """Record one call, as `LanguageModel(record=...)`; takes microseconds and never fails."""
        self._rows.start()
        self._rows.add(
            {
                "at": call.ended_at,
                "kind": "completion",
                "provider": _PROVIDER,
                "model": call.model,
                "session": call.account.session,
                "project": call.account.project,
                "calls": call.requests,
                "tokens": call.tokens,
                "cost": call.cost,
                "seconds": round(call.seconds, 4),
            }
        )

    def close(self, *, wait_s: float = CLOSE_S) -> None:
        """Write what is left, if that takes no longer than `wait_s`; nothing is written after."""
        self._rows.close(wait_s=wait_s)

"""The log of calls to language models and their cost: rows of `llm_calls`, written in the background."""

from __future__ import annotations

from knowledge_pipeline.llm.model_calls import ModelCall
from knowledge_pipeline.query.log.row_writer import FLUSH_INTERVAL_S, RowWriter
from knowledge_pipeline.store.lake import Lake

_PROVIDER = "openai"  # the protocol, as in the settings of embeddings


class ModelCallLog(RowWriter):
    """Logs the completions of one process in one store. Threads may share it."""

    def __init__(self, lake: Lake, *, flush_interval_s: float = FLUSH_INTERVAL_S) -> None:
        subject = "calls of the language model"
        super().__init__(lake, "llm_calls", subject=subject, flush_interval_s=flush_interval_s)

    def record(self, call: ModelCall) -> None:
        """Record one call, as `LanguageModel(record=...)`; takes microseconds and never fails."""
        self.start()
        self.add(
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

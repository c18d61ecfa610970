"""The log of calls to language models and their cost: rows of `llm_calls`, written in the background."""

from __future__ import annotations

from knowledge_pipeline.llm.model_calls import ModelCall
from knowledge_pipeline.query.log.queries import redact
from knowledge_pipeline.query.log.row_writer import FLUSH_INTERVAL_S, LogRow, RowWriter
from knowledge_pipeline.store.lake import Lake

MAX_KEPT_CHARS = 8_000  # of a reported prompt, and of a response
_PROVIDER = "openai"  # the protocol, as in the settings of embeddings
_TEXTS = ("prompt", "response")


class ModelCallLog(RowWriter):
    """Logs the completions of one process in one store. Threads may share it."""

    def __init__(self, lake: Lake, *, flush_interval_s: float = FLUSH_INTERVAL_S) -> None:
        subject = "calls of the language model"
        super().__init__(
            lake, "llm_calls", subject=subject, finalize_row=_redact_texts, flush_interval_s=flush_interval_s
        )

    def record(self, call: ModelCall) -> None:
        """Record one call, as `LanguageModel(record=...)`; takes microseconds and never fails."""
        self.start()
        report = call.report
        self.add(
            {
                "at": call.ended_at,
                "kind": "completion",
                "provider": report.provider if report else _PROVIDER,
                "model": call.model,
                "session": call.account.session,
                "project": call.account.project,
                "calls": call.requests,
                "tokens": call.tokens,
                "cost": call.cost,
                "seconds": round(call.seconds, 4),
                "on_behalf_of": call.account.on_behalf_of,
                "tenant": call.account.tenant,
                "interface": report.interface if report else None,
                "token": report.token if report else None,
                "input_tokens": call.input_tokens,
                "output_tokens": call.output_tokens,
                "error": report.error if report else None,
                "prompt": report.prompt if report else None,
                "response": report.response if report else None,
            }
        )


def _redact_texts(row: LogRow) -> LogRow:
    """The row, with the beginnings of its texts without secrets."""
    redacted = {name: redact(row[name], MAX_KEPT_CHARS) for name in _TEXTS if row[name] is not None}
    return {**row, **redacted}

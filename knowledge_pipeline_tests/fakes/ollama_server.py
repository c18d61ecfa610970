"""A small Ollama that speaks its own API, on a real socket: `/api/embed`, `/api/show`, `/api/tags`.

    with OllamaServer() as server:
        server.pull("nomic-embed-text", dimensions=64)

A token counts as a word; a text longer than the context is cut, or refused where `truncate` is false.

API: https://github.com/ollama/ollama/blob/main/docs/api.md
"""

from __future__ import annotations

import json
from collections import deque
from dataclasses import dataclass
from typing import Any

from knowledge_pipeline_tests.fakes.openai_server import word_vector
from knowledge_pipeline_tests.fakes.served import Asked, Sent, Served


@dataclass(frozen=True, slots=True)
class Model:
    """A model that is pulled."""

    dimensions: int
    context_length: int
    capabilities: tuple[str, ...]


class OllamaServer(Served):
    """A context manager; a model's name without a tag means `:latest`."""

    def __init__(self) -> None:
        super().__init__()
        self.models: dict[str, Model] = {}
        self.requests: list[tuple[str, dict[str, Any], int]] = []  # path, body, status
        self.faults: deque[Sent] = deque()

    @property
    def url(self) -> str:
        return self.address

    @property
    def bodies(self) -> list[dict[str, Any]]:
        """Those of the requests for vectors that were answered."""
        return [body for path, body, status in self.requests if path == "/api/embed" and status == 200]

    def pull(
        self,
        name: str,
        *,
        dimensions: int = 32,
        context_length: int = 8192,
        capabilities: tuple[str, ...] = ("embedding",),
    ) -> None:
        self.models[_with_tag(name)] = Model(dimensions, context_length, capabilities)

    def fail_next(self, *answers: Sent) -> None:
        self.faults.extend(answers)

    def send(self, asked: Asked) -> Sent:
        body = json.loads(asked.content or b"{}")
        sent = self.faults.popleft() if self.faults else self._answer(asked, body)
        self.requests.append((asked.path, body, sent.status))
        return sent

    def _answer(self, asked: Asked, body: dict[str, Any]) -> Sent:
        match asked.verb, asked.path:
            case "GET", "/api/tags":
                names = [{"name": name, "model": name, "details": {"format": "gguf"}} for name in self.models]
                return _json(200, {"models": names})
            case "POST", "/api/show" | "/api/embed":
                model = self.models.get(_with_tag(body.get("model", "")))
                if model is None:
                    return _json(404, {"error": f"model '{body.get('model')}' not found"})
                return _show(model) if asked.path == "/api/show" else _embed(model, body)
            case _:
                return Sent(404, b"404 page not found", {"Content-Type": "text/plain"})


def _show(model: Model) -> Sent:
    described = {
        "general.architecture": "nomic-bert",
        "nomic-bert.context_length": model.context_length,
        "nomic-bert.embedding_length": model.dimensions,
    }
    return _json(200, {"model_info": described, "capabilities": list(model.capabilities)})


def _embed(model: Model, body: dict[str, Any]) -> Sent:
    if "embedding" not in model.capabilities:
        return _json(501, {"error": "this model does not support embeddings"})
    given = body.get("input", [])
    texts = [given] if isinstance(given, str) else given
    context = min(model.context_length, body.get("options", {}).get("num_ctx", model.context_length))
    words = [text.split() for text in texts]
    if body.get("truncate") is False and any(len(each) > context for each in words):
        return _json(400, {"error": "the input length exceeds the context length"})
    dimensions = min(body.get("dimensions") or model.dimensions, model.dimensions)
    read = [each[:context] for each in words]
    vectors = [word_vector(" ".join(each), dimensions) for each in read]
    counts = {"total_duration": 14143917, "load_duration": 1019500, "prompt_eval_count": sum(map(len, read))}
    return _json(200, {"model": body["model"], "embeddings": vectors, **counts})


def _with_tag(name: str) -> str:
    return name if ":" in name.rpartition("/")[2] else f"{name}:latest"


def _json(status: int, value: Any) -> Sent:
    return Sent(status, json.dumps(value).encode())

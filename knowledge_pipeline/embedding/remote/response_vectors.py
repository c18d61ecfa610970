"""The vectors in the responses of embedding endpoints, and the tokens that they bill, by protocol."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from knowledge_pipeline.endpoints.responses import EndpointRefused, EndpointUnavailable
from knowledge_pipeline.json_values import is_list, is_object

_NOT_VECTORS = "answered with something that is not one vector for each text"


def parse_vectors(payload: dict[str, Any], count: int, dimensions: int) -> np.ndarray:
    """Vectors of OpenAI's `data[].embedding`: float32, shape (count, dimensions), in the order of the texts.

    Rows have length 1.

    Raises:
        EndpointUnavailable: not one finite vector for each text.
        EndpointRefused: vectors of another length.
    """
    entries = _require_entries(payload.get("data"), count)
    try:
        order = [entry.get("index", position) for position, entry in enumerate(entries)]
        rows = [entry["embedding"] for entry in entries]
        if sorted(order) != list(range(count)):
            raise ValueError
    except (AttributeError, KeyError, TypeError, ValueError):
        raise EndpointUnavailable(_NOT_VECTORS) from None
    vectors = np.empty((count, dimensions), np.float32)
    vectors[order] = _normalize_rows(rows, dimensions, order)
    return vectors


def parse_billed_tokens(payload: dict[str, Any]) -> int | None:
    """The tokens that a response of OpenAI bills; None where it names none."""
    usage = payload.get("usage")
    billed = usage.get("total_tokens") or usage.get("prompt_tokens") if is_object(usage) else None
    return billed if isinstance(billed, int) and billed > 0 else None


def parse_embeddings(payload: dict[str, Any], count: int, dimensions: int) -> np.ndarray:
    """Vectors of Ollama's `embeddings`, as `parse_vectors`."""
    return _normalize_rows(_require_entries(payload.get("embeddings"), count), dimensions, range(count))


def parse_predictions(payload: dict[str, Any], count: int, dimensions: int) -> tuple[np.ndarray, int, int]:
    """Vectors of Vertex AI's `predictions[].embeddings.values`, as `parse_vectors`.

    Returns:
        The vectors, the tokens that are billed (0 where they are not told), and how many texts were cut.
    """
    entries = _require_entries(payload.get("predictions"), count)
    try:
        embeddings = [entry["embeddings"] for entry in entries]
        rows = [embedding["values"] for embedding in embeddings]
        statistics = [_find_statistics(embedding) for embedding in embeddings]
        tokens = sum(int(each.get("token_count") or 0) for each in statistics)
        truncated = sum(each.get("truncated") is True for each in statistics)
    except (AttributeError, KeyError, TypeError, ValueError):
        raise EndpointUnavailable(_NOT_VECTORS) from None
    return _normalize_rows(rows, dimensions, range(count)), tokens, truncated


def _find_statistics(embedding: Any) -> dict[str, Any]:
    found = embedding.get("statistics")
    return found if is_object(found) else {}


def _require_entries(entries: Any, count: int) -> list[Any]:
    if is_list(entries) and len(entries) == count:
        return entries
    found = len(entries) if is_list(entries) else "no"
    raise EndpointUnavailable(f"answered with {found} vectors for {count} texts")


def _normalize_rows(rows: list[Any], dimensions: int, positions: Sequence[int]) -> np.ndarray:
    """The rows with length 1; `positions` are those of their texts, which errors name."""
    try:
        vectors = np.asarray(rows, dtype=np.float32)
        if vectors.ndim != 2:
            raise ValueError
    except (TypeError, ValueError):
        raise EndpointUnavailable(_NOT_VECTORS) from None
    if vectors.shape[1] != dimensions:
        raise EndpointRefused(
            f"answers with vectors of {vectors.shape[1]} dimensions, not {dimensions}: "
            f"set embedding.dimensions to {vectors.shape[1]}"
        )
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1)
    bad = np.flatnonzero(~(np.isfinite(lengths) & (lengths > 1e-12)))
    if bad.size:
        raise EndpointUnavailable(
            f"answered with an empty or infinite vector of text {positions[bad[0]]} of {len(rows)} (from 0)"
        )
    return (vectors / lengths[:, None]).astype(np.float32, copy=False)

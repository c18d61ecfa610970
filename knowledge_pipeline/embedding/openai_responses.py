"""The vectors in the response of an embedding endpoint, and the tokens that it bills."""

from __future__ import annotations

from typing import Any

import numpy as np

from knowledge_pipeline.endpoints.responses import EndpointRefused, EndpointUnavailable
from knowledge_pipeline.json_values import is_list, is_object


def parse_vectors(payload: dict[str, Any], count: int, dimensions: int) -> np.ndarray:
    """float32, shape (count, dimensions), rows of length 1, in the order of the texts.

    Raises:
        EndpointUnavailable: not one finite vector for each text.
        EndpointRefused: vectors of another length.
    """
    entries = payload.get("data")
    if not is_list(entries) or len(entries) != count:
        found = len(entries) if is_list(entries) else "no"
        raise EndpointUnavailable(f"answered with {found} vectors for {count} texts")
    try:
        order = [entry.get("index", position) for position, entry in enumerate(entries)]
        rows = np.asarray([entry["embedding"] for entry in entries], dtype=np.float32)
        if sorted(order) != list(range(count)) or rows.ndim != 2:
            raise ValueError
    except (AttributeError, KeyError, TypeError, ValueError):
        raise EndpointUnavailable("answered with something that is not one vector for each text") from None
    if rows.shape[1] != dimensions:
        raise EndpointRefused(
            f"answers with vectors of {rows.shape[1]} dimensions, not {dimensions}: "
            f"set embedding.dimensions to {rows.shape[1]}"
        )
    lengths = np.linalg.norm(rows.astype(np.float64), axis=1)
    bad = np.flatnonzero(~(np.isfinite(lengths) & (lengths > 1e-12)))
    if bad.size:
        raise EndpointUnavailable(
            f"answered with an empty or infinite vector of text {order[bad[0]]} of {count} (from 0)"
        )
    vectors = np.empty_like(rows)
    vectors[order] = rows / lengths[:, None]
    return vectors


def parse_billed_tokens(payload: dict[str, Any], estimate: int) -> int:
    """The tokens that the response bills; the estimate where it names none."""
    usage = payload.get("usage")
    billed = usage.get("total_tokens") or usage.get("prompt_tokens") if is_object(usage) else None
    return billed if isinstance(billed, int) and billed > 0 else estimate

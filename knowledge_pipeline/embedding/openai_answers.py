"""What an endpoint's answer means: vectors, a refusal for good, or trouble that may pass.

Of what an endpoint says, only short error codes reach a message: its sentences may quote keys and texts.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import httpx
import numpy as np

_PASSING = frozenset({408, 409, 425, 429})
_CODE = re.compile(r"[\w.-]{1,60}")
_TOO_LONG = re.compile(
    r"context length|context size|too long|too large|too many tokens|maximum.{0,20}tokens|exceed"
)


class Trouble(Exception):
    """One try failed; another may succeed, after `retry_after_s` seconds at the soonest."""

    def __init__(self, message: str, *, retry_after_s: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class Refusal(Exception):
    """The endpoint will answer the same request the same way again."""

    def __init__(self, message: str, *, about_dimensions: bool = False, about_length: bool = False) -> None:
        super().__init__(message)
        self.about_dimensions = about_dimensions
        self.about_length = about_length


def parse_answer(response: httpx.Response, model: str) -> dict[str, Any]:
    """The JSON object of a good answer.

    Raises:
        Trouble, Refusal: the answer is not good; the message completes "the embedding endpoint …".
    """
    answer = _json_object(response)
    if response.is_success:
        if answer is None and "html" in response.headers.get("Content-Type", ""):
            raise Refusal("answers with a web page: check embedding.base_url, which often ends in /v1")
        if answer is None:
            raise Trouble("sent an answer that is cut off or no JSON")
        return answer
    status, error = response.status_code, _error(answer)
    code = _code(error)
    if (status in _PASSING or status >= 500) and code != "insufficient_quota":
        raise Trouble(f"answered {status}{_named(code)}", retry_after_s=_retry_after_s(response))
    said = str(error.get("message", "")).lower()
    raise Refusal(
        f"refuses with {status}{_named(code)}: {_remedy(status, model)}",
        about_dimensions=status in (400, 422) and "dimension" in said,
        about_length=status == 413 or (status in (400, 422) and bool(_TOO_LONG.search(said))),
    )


def parse_vectors(answer: dict[str, Any], count: int, dimensions: int) -> np.ndarray:
    """float32, shape (count, dimensions), rows of length 1, in the order of the texts.

    Raises:
        Trouble: not one finite vector for each text.
        Refusal: vectors of another length.
    """
    entries = answer.get("data")
    if not isinstance(entries, list) or len(entries) != count:
        found = len(entries) if isinstance(entries, list) else "no"
        raise Trouble(f"answered with {found} vectors for {count} texts")
    try:
        order = [entry.get("index", position) for position, entry in enumerate(entries)]
        rows = np.asarray([entry["embedding"] for entry in entries], dtype=np.float32)
        if sorted(order) != list(range(count)) or rows.ndim != 2:
            raise ValueError
    except (AttributeError, KeyError, TypeError, ValueError):
        raise Trouble("answered with something that is not one vector for each text") from None
    if rows.shape[1] != dimensions:
        raise Refusal(
            f"answers with vectors of {rows.shape[1]} dimensions, not {dimensions}: "
            f"set embedding.dimensions to {rows.shape[1]}"
        )
    vectors = np.empty_like(rows)
    vectors[order] = rows
    return _normalised(vectors)


def used_tokens(answer: dict[str, Any], estimate: int) -> int:
    """The tokens that the answer bills, or the estimate where it tells none."""
    usage = answer.get("usage")
    told = usage.get("total_tokens") or usage.get("prompt_tokens") if isinstance(usage, dict) else None
    return told if isinstance(told, int) and told > 0 else estimate


def _normalised(vectors: np.ndarray) -> np.ndarray:
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1)
    bad = np.flatnonzero(~(np.isfinite(lengths) & (lengths > 1e-12)))
    if bad.size:
        raise Trouble(
            f"answered with an empty or infinite vector of text {bad[0]} of {len(vectors)} (from 0)"
        )
    return (vectors / lengths[:, None]).astype(np.float32)


def _json_object(response: httpx.Response) -> dict[str, Any] | None:
    try:
        answer = response.json()
    except ValueError:
        return None
    return answer if isinstance(answer, dict) else None


def _error(answer: dict[str, Any] | None) -> dict[str, Any]:
    error = (answer or {}).get("error", answer)
    return error if isinstance(error, dict) else {"message": error or ""}


def _code(error: dict[str, Any]) -> str:
    codes = (error.get("code"), error.get("type"))
    return next((code for code in codes if isinstance(code, str) and _CODE.fullmatch(code)), "")


def _named(code: str) -> str:
    return f" ({code})" if code else ""


def _retry_after_s(response: httpx.Response) -> float:
    """Seconds that a `Retry-After` header asks for, given as seconds or as a date; 0 without one."""
    asked = response.headers.get("Retry-After", "")
    try:
        return max(0.0, float(asked))
    except ValueError:
        pass
    try:
        return max(0.0, (parsedate_to_datetime(asked) - datetime.now(UTC)).total_seconds())
    except (TypeError, ValueError):  # no date either, or one without a time zone
        return 0.0


def _remedy(status: int, model: str) -> str:
    if status == 401:
        return "set embedding.api_key to a valid key, by a variable of the environment"
    if status == 403:
        return f"the key may not use the model {model!r}; ask for access, or set another embedding.model"
    if status == 404:
        return f"check embedding.base_url, and that the endpoint has the model {model!r}"
    if status in (402, 429):
        return "the account has no quota left; see to its billing"
    if 300 <= status < 400:
        return "it has moved; set embedding.base_url to its new place"
    return (
        f"check embedding.model ({model!r}), dimensions and max_input_tokens against what the endpoint offers"
    )

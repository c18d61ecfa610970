"""What an endpoint's response means: a result, a permanent refusal, or a failure that may pass.

Only an endpoint's short error codes reach a message: its sentences may quote keys and texts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx2

from knowledge_pipeline.json_values import is_list, is_object
from knowledge_pipeline.times import parse_retry_after

_TRANSIENT_STATUSES = frozenset({408, 409, 425, 429})
_INVALID_REQUEST_STATUSES = frozenset({400, 422})
_ERROR_CODE = re.compile(r"[\w.-]{1,60}")
_DELAY = re.compile(r"(\d{1,6}(?:\.\d{1,9})?)s")
_TOO_LONG = re.compile(
    r"context length|context size|too long|too large|too many tokens|maximum.{0,20}tokens|exceed"
    r"|input token count|batchsize value"  # of Vertex AI
)


@dataclass(frozen=True, slots=True)
class ConfigSection:
    """The part of `knowledge.yaml` that an endpoint is configured in, as messages name it."""

    name: str  # "embedding"
    model: str
    limit_keys: str  # the keys that a request may break: "dimensions and max_input_tokens"
    fixes: Mapping[int, str] = field(default_factory=dict[int, str])  # by status, where this endpoint differs


class EndpointUnavailable(Exception):
    """One try failed; another may succeed, after `retry_after_s` seconds at the soonest."""

    def __init__(self, message: str, *, retry_after_s: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class EndpointRefused(Exception):
    """The endpoint will refuse the same request again."""

    def __init__(self, message: str, *, status: int = 200, detail: str = "") -> None:
        super().__init__(message)
        self.status = status
        self._detail = detail  # the endpoint's words in lower case, which never reach a message

    @property
    def is_request_specific(self) -> bool:
        """Whether only this request was wrong, so that the endpoint may take another."""
        return self.status == 413 or self.status in _INVALID_REQUEST_STATUSES

    @property
    def is_too_long(self) -> bool:
        """Whether the request was too long."""
        return self.status == 413 or (
            self.status in _INVALID_REQUEST_STATUSES and bool(_TOO_LONG.search(self._detail))
        )

    def is_about_parameter(self, parameter: str) -> bool:
        """Whether the endpoint complains of a parameter of the request."""
        return self.status in _INVALID_REQUEST_STATUSES and parameter in self._detail


def parse_response(response: httpx2.Response, section: ConfigSection) -> dict[str, Any]:
    """The JSON object of a good response.

    Raises:
        EndpointUnavailable, EndpointRefused: any other response; the message completes "the … endpoint …".
    """
    try:
        payload: Any = response.json()
    except ValueError:
        payload = None
    if response.is_success:
        if is_object(payload):
            return payload
        if payload is None and "html" in response.headers.get("Content-Type", ""):
            raise EndpointRefused(
                f"answers with a web page: check {section.name}.base_url, which often ends in /v1"
            )
        raise EndpointUnavailable("sent a response that is cut off or not a JSON object")
    status, error = response.status_code, _find_error(payload)
    codes = (error.get("code"), error.get("type"), error.get("status"))  # OpenAI's, and Google's
    code = next((code for code in codes if isinstance(code, str) and _ERROR_CODE.fullmatch(code)), "")
    shown = f"{status} ({code})" if code else str(status)
    if (status in _TRANSIENT_STATUSES or status >= 500) and code != "insufficient_quota":
        retry_after_s = parse_retry_after(response.headers.get("Retry-After")) or _find_retry_delay_s(error)
        raise EndpointUnavailable(f"answered {shown}", retry_after_s=retry_after_s)
    raise EndpointRefused(
        f"refuses with {shown}: {_suggest_fix(status, section)}",
        status=status,
        detail=str(error.get("message", "")).lower(),
    )


def _find_error(payload: Any) -> Mapping[str, Any]:
    """The error object of a response; its message alone where the endpoint sends a bare text."""
    error: Any = payload.get("error", payload) if is_object(payload) else {}
    return error if is_object(error) else {"message": error or ""}


def _find_retry_delay_s(error: Mapping[str, Any]) -> float:
    """Seconds that an error of Google asks to wait, in one of its details; 0 where none does."""
    details: Any = error.get("details")
    for detail in details if is_list(details) else []:
        delay: Any = detail.get("retryDelay") if is_object(detail) else None
        if isinstance(delay, str) and (match := _DELAY.fullmatch(delay)):
            return float(match[1])
    return 0.0


def _suggest_fix(status: int, section: ConfigSection) -> str:
    name, model = section.name, section.model
    if status in section.fixes:
        return section.fixes[status]
    if status == 401:
        return f"set {name}.api_key to a valid key, through an environment variable"
    if status == 403:
        return f"the key may not use the model {model!r}; ask for access, or set another {name}.model"
    if status == 404:
        return f"check {name}.base_url, and that the endpoint has the model {model!r}"
    if status in (402, 429):
        return "the account has no quota left; check its billing"
    if 300 <= status < 400:
        return f"it has moved; set {name}.base_url to its new address"
    return f"check {name}.model ({model!r}), {section.limit_keys} against what the endpoint offers"

"""What an endpoint's answer means: something good, a refusal for good, or trouble that may pass.

Of what an endpoint says, only short error codes reach a message: its sentences may quote keys and texts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import httpx

from knowledge_pipeline.times import parse_retry_after

_TRANSIENT_STATUSES = frozenset({408, 409, 425, 429})
_INVALID_REQUEST_STATUSES = frozenset({400, 422})
_ERROR_CODE = re.compile(r"[\w.-]{1,60}")
_TOO_LONG = re.compile(
    r"context length|context size|too long|too large|too many tokens|maximum.{0,20}tokens|exceed"
)


@dataclass(frozen=True, slots=True)
class ConfigSection:
    """The part of `knowledge.yaml` that an endpoint is configured in, as messages name it."""

    name: str  # "embedding"
    model: str
    limit_keys: str  # the keys that a request may break: "dimensions and max_input_tokens"


class EndpointUnavailable(Exception):
    """One try failed; another may succeed, after `retry_after_s` seconds at the soonest."""

    def __init__(self, message: str, *, retry_after_s: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class EndpointRefused(Exception):
    """The endpoint will answer the same request the same way again."""

    def __init__(self, message: str, *, status: int = 200, detail: str = "") -> None:
        super().__init__(message)
        self.status = status
        self._detail = detail  # by the endpoint, in lower case; it is read here and never told

    @property
    def is_request_specific(self) -> bool:
        """Whether another request may be taken, since this one alone was wrong."""
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


def parse_response(response: httpx.Response, section: ConfigSection) -> dict[str, Any]:
    """The JSON object of a good answer.

    Raises:
        Trouble, Refusal: the answer is not good; the message completes "the … endpoint …".
    """
    answer = _parse_json_object(response)
    if response.is_success:
        if answer is None and "html" in response.headers.get("Content-Type", ""):
            raise EndpointRefused(
                f"answers with a web page: check {section.name}.base_url, which often ends in /v1"
            )
        if answer is None:
            raise EndpointUnavailable("sent an answer that is cut off or no JSON")
        return answer
    status, error = response.status_code, _find_error(answer)
    code = _find_error_code(error)
    if (status in _TRANSIENT_STATUSES or status >= 500) and code != "insufficient_quota":
        raise EndpointUnavailable(
            f"answered {status}{_format_error_code(code)}",
            retry_after_s=parse_retry_after(response.headers.get("Retry-After")) or 0.0,
        )
    raise EndpointRefused(
        f"refuses with {status}{_format_error_code(code)}: {_suggest_fix(status, section)}",
        status=status,
        detail=str(error.get("message", "")).lower(),
    )


def _parse_json_object(response: httpx.Response) -> dict[str, Any] | None:
    try:
        answer = response.json()
    except ValueError:
        return None
    return answer if isinstance(answer, dict) else None


def _find_error(payload: dict[str, Any] | None) -> dict[str, Any]:
    error = (payload or {}).get("error", payload)
    return error if isinstance(error, dict) else {"message": error or ""}


def _find_error_code(error: dict[str, Any]) -> str:
    codes = (error.get("code"), error.get("type"))
    return next((code for code in codes if isinstance(code, str) and _ERROR_CODE.fullmatch(code)), "")


def _format_error_code(code: str) -> str:
    return f" ({code})" if code else ""


def _suggest_fix(status: int, section: ConfigSection) -> str:
    name, model = section.name, section.model
    if status == 401:
        return f"set {name}.api_key to a valid key, by a variable of the environment"
    if status == 403:
        return f"the key may not use the model {model!r}; ask for access, or set another {name}.model"
    if status == 404:
        return f"check {name}.base_url, and that the endpoint has the model {model!r}"
    if status in (402, 429):
        return "the account has no quota left; see to its billing"
    if 300 <= status < 400:
        return f"it has moved; set {name}.base_url to its new place"
    return f"check {name}.model ({model!r}), {section.limit_keys} against what the endpoint offers"

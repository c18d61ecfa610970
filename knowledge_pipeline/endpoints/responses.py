"""What an endpoint's answer means: something good, a refusal for good, or trouble that may pass.

Of what an endpoint says, only short error codes reach a message: its sentences may quote keys and texts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import httpx

_PASSING = frozenset({408, 409, 425, 429})
_UNCLEAR = frozenset({400, 422})
_CODE = re.compile(r"[\w.-]{1,60}")
_TOO_LONG = re.compile(
    r"context length|context size|too long|too large|too many tokens|maximum.{0,20}tokens|exceed"
)


@dataclass(frozen=True, slots=True)
class Section:
    """The part of `knowledge.yaml` that an endpoint is configured in, as messages name it."""

    name: str  # "embedding"
    model: str
    limits: str  # the keys that a request may break: "dimensions and max_input_tokens"


class Trouble(Exception):
    """One try failed; another may succeed, after `retry_after_s` seconds at the soonest."""

    def __init__(self, message: str, *, retry_after_s: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class Refusal(Exception):
    """The endpoint will answer the same request the same way again."""

    def __init__(self, message: str, *, status: int = 200, said: str = "") -> None:
        super().__init__(message)
        self.status = status
        self._said = said  # by the endpoint, in lower case; it is read here and never told

    @property
    def about_this_request(self) -> bool:
        """Whether another request may be taken, since this one alone was wrong."""
        return self.status == 413 or self.status in _UNCLEAR

    @property
    def about_length(self) -> bool:
        """Whether the request was too long."""
        return self.status == 413 or (self.status in _UNCLEAR and bool(_TOO_LONG.search(self._said)))

    def is_about(self, parameter: str) -> bool:
        """Whether the endpoint complains of a parameter of the request."""
        return self.status in _UNCLEAR and parameter in self._said


def parse_answer(response: httpx.Response, section: Section) -> dict[str, Any]:
    """The JSON object of a good answer.

    Raises:
        Trouble, Refusal: the answer is not good; the message completes "the … endpoint …".
    """
    answer = _json_object(response)
    if response.is_success:
        if answer is None and "html" in response.headers.get("Content-Type", ""):
            raise Refusal(f"answers with a web page: check {section.name}.base_url, which often ends in /v1")
        if answer is None:
            raise Trouble("sent an answer that is cut off or no JSON")
        return answer
    status, error = response.status_code, _error(answer)
    code = _code(error)
    if (status in _PASSING or status >= 500) and code != "insufficient_quota":
        raise Trouble(f"answered {status}{_named(code)}", retry_after_s=_retry_after_s(response))
    raise Refusal(
        f"refuses with {status}{_named(code)}: {_remedy(status, section)}",
        status=status,
        said=str(error.get("message", "")).lower(),
    )


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


def _remedy(status: int, section: Section) -> str:
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
    return f"check {name}.model ({model!r}), {section.limits} against what the endpoint offers"

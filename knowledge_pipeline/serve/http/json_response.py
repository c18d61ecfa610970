"""How answers of the API become JSON."""

from __future__ import annotations

from typing import Any

from fastapi.responses import JSONResponse
from pydantic_core import to_json


class AnswerResponse(JSONResponse):
    """JSON by pydantic's encoder, which takes a quarter of the time of Python's own."""

    def render(self, content: Any) -> bytes:
        """UTF-8; a number that JSON has no word for is null."""
        return to_json(content, inf_nan_mode="null")

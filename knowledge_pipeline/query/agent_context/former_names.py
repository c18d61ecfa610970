"""Names that templates used in the previous version; they work for one version more, with a warning."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping

from jinja2.ext import Extension
from jinja2.lexer import Token, TokenStream

_VARIABLES: Mapping[str, str] = {"passages": "excerpts", "left_out": "omitted"}
_ATTRIBUTES: Mapping[str, str] = {"also": "near_duplicates"}

_log = logging.getLogger(__name__)


class FormerNames(Extension):
    """Reads former names as the current ones, and warns once for each template that has any."""

    def filter_stream(self, stream: TokenStream) -> Iterator[Token]:
        """Yield the tokens of a template under the current names."""
        found: dict[str, str] = {}
        previous = ""
        for token in stream:
            is_attribute = previous == "dot" or (previous == "lbracket" and token.type == "string")
            if is_attribute or token.type == "name":
                names = _ATTRIBUTES if is_attribute else _VARIABLES
                if current := names.get(token.value):
                    found[token.value] = current
                    token = Token(token.lineno, token.type, current)
            previous = token.type
            yield token
        if found:
            _log.warning(
                "the template %s uses names that the next version does not know; rename %s",
                stream.name,
                ", ".join(f"{former} -> {current}" for former, current in found.items()),
            )

"""What a definition's docstring, or the comment before it, says. Pure."""

from __future__ import annotations

import re

from knowledge_pipeline.chunking.code.headers import COMMENT_MARKS, find_comments_before
from knowledge_pipeline.syntax.outline import Outline, OutlineDefinition

_DOCSTRING = re.compile(r"""\s*[rRuU]?(?P<quotes>"{3}|'{3}|"|')(?P<text>.*?)(?P=quotes)""", re.DOTALL)
_BLANK_LINE = re.compile(r"\n[ \t]*\n")
_SENTENCE_END = re.compile(r"(?<=[^\W\d_]{2}[.!?])\s|[.!?:;]$|\s@\w")
_INLINE_TAG = re.compile(r"\{@\w+\s+#?([^{}]*)\}|(?<![\w:]):[\w:]++(?<=:)`~?([^`]*)`|</?\w+[^<>]*>|[`*]+")


def find_documentation(outline: Outline, definition: OutlineDefinition) -> str:
    """A definition's docstring, or the comment right before it, as it is written; "" without."""
    text = outline.tree.text
    if outline.tree.language == "python":
        body = definition.body_start_char
        found = _DOCSTRING.match(text, body) if body is not None else None
        return found["text"].strip() if found else ""
    comments = find_comments_before(definition.node)
    if not comments:
        return ""
    start, end = outline.tree.start(comments[0]), outline.tree.end(comments[-1])
    is_apart = _BLANK_LINE.search(text, end, definition.start_char)
    return "" if is_apart else text[start:end].strip()


def extract_first_sentence(documentation: str, name: str) -> str:
    """The first sentence, without comment marks, markup, and the name of what it describes in front.

    Go's comments begin with the name of the definition, which a question does not know.
    """
    lines = (COMMENT_MARKS.sub("", line).strip() for line in documentation.splitlines())
    paragraph: list[str] = []
    for line in lines:
        if not line and paragraph:
            break
        paragraph += [line] if line else []
    text = " ".join(_INLINE_TAG.sub(r"\1\2", " ".join(paragraph)).split())
    end = _SENTENCE_END.search(text)
    sentence = text[: end.start()].rstrip(".!?:; ") if end else text
    first, _, rest = sentence.partition(" ")
    return rest if first == name else sentence

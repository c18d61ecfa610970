"""What kind of answer a question asks for, as far as its words say. Pure.

A question may be of several kinds or of none. What a kind means for the order of results is learned
(`ranker.json`): nothing is left out because of it.
"""

from __future__ import annotations

import re

QUESTION_KINDS: dict[str, re.Pattern[str]] = {
    "howto": re.compile(
        r"^\s*(how (do|can|should|would|to)\b|how .*\b(i|we|you)\b)"
        r"|\b(steps?|guide|tutorial|set ?up|install|configure|deploy|run)\b",
        re.I,
    ),
    "setting": re.compile(
        r"\b(default|settings?|options?|config|configure|environment variable|flag|limit|timeout|maximum"
        r"|minimum|allowed)\b",
        re.I,
    ),
    "concept": re.compile(
        r"^\s*(what (is|are|does)|explain|difference|overview|why)\b|\b(difference between|what's)\b", re.I
    ),
    "location": re.compile(
        r"\b(where|which (function|class|file|module|method)|implement(ed|ation|s)?"
        r"|code (that|for|which)|function|class|method|source)\b|^how (does|is|are)\b",
        re.I,
    ),
    "history": re.compile(
        r"\b(when|changed?|changes|recent(ly)?|history|commit|why (was|did|were)|introduced|removed|added"
        r"|fixed|last|latest|version|release)\b",
        re.I,
    ),
    "error": re.compile(
        r"(error|exception|traceback|fails?|failed|cannot|invalid|warning)\b|[A-Z]\w+Error", re.I
    ),
}
"""Kind -> what a question of it looks like."""

_QUESTION_CHARS = 1_000  # of a text, in which a person has said what they want


def list_kinds(text: str) -> tuple[str, ...]:
    """The kinds of a question, by its beginning."""
    start = text[:_QUESTION_CHARS]
    return tuple(kind for kind, form in QUESTION_KINDS.items() if form.search(start))

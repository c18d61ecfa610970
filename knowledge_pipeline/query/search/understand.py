"""From what a person typed to a question: plain text, filters, identifiers, paths, intent.

`lang:python`, `path:"src/my app"` and their like become filters. A word before a colon
that names no filter is text, so `std::vector`, URLs and `C:\\` stay what they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, get_args

from knowledge_pipeline import identifiers
from knowledge_pipeline.config.settings import SourceType
from knowledge_pipeline.errors import QuestionRefused
from knowledge_pipeline.languages import language_of
from knowledge_pipeline.query.filters import Filters, clean
from knowledge_pipeline.query.search.stopwords import without_function_words

MAX_CHARS = 4000

Intent = Literal[
    "find_implementation",
    "understand_concept",
    "find_similar",
    "find_history",
    "debug_issue",
    "find_usage",
]

_FIELDS = {
    "lang": "languages",
    "language": "languages",
    "ext": "extensions",
    "source": "sources",
    "type": "source_types",
    "repo": "repos",
    "branch": "branches",
    "path": "paths",
    "author": "authors",
    "tag": "tags",
    "label": "labels",
    "project": "projects",
    "status": "statuses",
    "space": "spaces",
    "since": "since",
    "until": "until",
}
_TERM = re.compile(
    rf"""(?<!\S)(?P<key>{"|".join(_FIELDS)}):(?:"(?P<double>[^"]+)"|'(?P<single>[^']+)'|"""
    r"""(?P<plain>(?![:"'])(?!//)\S+))(?!\S)""",
    re.IGNORECASE,
)
_SOURCE_TYPES = {
    *get_args(SourceType),
    "github_pr",
    "github_issues",
    "jira",
    "confluence",
    "slack",
    "archive",
}
_DATE = re.compile(r"(\d{4})(?:-(\d\d?)(?:-(\d\d?))?)?")
_SPAN = re.compile(r"(\d{1,4})([dwmy])")
_SPAN_DAYS = {"d": 1, "w": 7, "m": 30, "y": 365}

_WORD = re.compile(r"[^\s`'\"“”‘’,;!?<>{}\[\]]+")
_IDENTIFIER = re.compile(r"[^\W\d]\w*(?:(?:\.|::|#|->)[^\W\d]\w*)*")
_SIGNS_OF_CODE = re.compile(r"_|::|#|->|\w\.\w|[a-z\d][A-Z]|[A-Z]{2,}[a-z]")
_PATH = re.compile(r"(?:[\w.@+~-]+/)*[\w.@+~-]+")

_INTENTS: dict[Intent, str] = {  # the first that fits
    "find_similar": r"\b(similar|resembl\w+|looks? like|same (as|way)|alternatives? to)\b",
    "find_history": r"\b(when (was|were|did)|who (wrote|changed|added|removed|introduced)|history|commits?|"
    r"why (was|were|did)\b.*\b(chang|remov|add|renam|introduc|mov|revert)\w*)\b",
    "find_usage": r"\b(usages?|callers?|call sites?|who calls|what calls|references? to|depends? on|"
    r"where\b.*\b(used|called|referenced|imported))\b",
    "debug_issue": r"\b(errors?|exceptions?|traceback|stack ?trace|crash\w*|bugs?|broken|fail(s|ed|ing|ure)?|"
    r"(does|do|did|is|are)(n't| not)\b.*\bwork\w*|segfault|deadlock|hangs?)\b",
    "find_implementation": r"\b(implement\w*|defin(ed|ition)|where (is|are|do|does)|"
    r"(function|class|method|code) (that|which|to|for))\b",
    "understand_concept": r"^\s*(how|what|why|explain|describe)\b",
}


@dataclass(frozen=True, slots=True)
class Question:
    """A question, understood."""

    text: str  # without the filter terms; never empty
    words: str  # those that tell, identifiers split: what full text searches
    identifiers: tuple[str, ...] = ()  # "Store.get", without brackets
    paths: tuple[str, ...] = ()  # "src/auth.py", "auth.py"
    filters: Filters = field(default_factory=Filters)
    intent: Intent = "understand_concept"


def understand(text: str, *, now: datetime | None = None) -> Question:
    """Read filters, identifiers, paths and intent out of a question.

    Args:
        text: what was typed.
        now: what `since:30d` counts back from; by default the present.

    Raises:
        QuestionRefused: it is empty, longer than `MAX_CHARS`, all filters, or has a date that is none.
    """
    _require_length(text)
    filters, plain = _filters_in(clean(text), now or datetime.now(UTC))
    if not plain:
        raise QuestionRefused("the question has filters but no words: say what to look for")
    return replace(without_filters(plain), filters=filters)


def without_filters(text: str) -> Question:
    """Identifiers, paths and intent of a text; what looks like a filter in it is text."""
    plain = as_is(text)
    return replace(plain, identifiers=_identifiers_in(plain.text), paths=_paths_in(plain.text))


def as_is(text: str) -> Question:
    """A text to search for without reading anything into it: a piece of code, a document."""
    plain = clean(text).strip()
    if not plain:
        raise QuestionRefused("the question is empty: say what to look for")
    words = without_function_words(identifiers.searchable(plain))
    return Question(text=plain, words=words, intent=_intent_of(plain))


def _require_length(text: str) -> None:
    if not text.strip():
        raise QuestionRefused("the question is empty: say what to look for")
    if len(text) > MAX_CHARS:
        raise QuestionRefused(f"the question has {len(text)} characters; allowed: at most {MAX_CHARS}")


def _filters_in(text: str, now: datetime) -> tuple[Filters, str]:
    """The filters that a text names, and the rest of the text."""
    found: dict[str, list[str]] = {}

    def take(match: re.Match[str]) -> str:
        key = match["key"].lower()
        quoted = match["double"] or match["single"]
        values = [quoted] if quoted else [value for value in match["plain"].split(",") if value]
        if not values or (key == "type" and not _SOURCE_TYPES.issuperset(values)):
            return match.group()  # `# type:ignore` is text
        found.setdefault(_FIELDS[key], []).extend(values)
        return " "

    plain = " ".join(_TERM.sub(take, text).split()) if _TERM.search(text) else text.strip()
    since, until = (
        _moment(name, found.pop(name)[-1], now) if name in found else None for name in ("since", "until")
    )
    lists: dict[str, Any] = {name: tuple(values) for name, values in found.items()}
    return Filters(**lists, since=since, until=until), plain


def _moment(name: str, value: str, now: datetime) -> datetime:
    """The start of a day, month or year; for `until` its end; or a span back from now."""
    if span := _SPAN.fullmatch(value):
        return now - timedelta(days=int(span[1]) * _SPAN_DAYS[span[2]])
    try:
        if (date := _DATE.fullmatch(value)) is None:
            moment = datetime.fromisoformat(value)
            return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        year, month, day = int(date[1]), int(date[2] or 1), int(date[3] or 1)
        start = datetime(year, month, day, tzinfo=UTC)
        return start if name == "since" else _end_of(start, has_month=bool(date[2]), has_day=bool(date[3]))
    except (ValueError, OverflowError):
        raise QuestionRefused(
            f"found {name}:{value}; allowed: a date such as {name}:2024-01-31, or a span such as {name}:30d"
        ) from None


def _end_of(start: datetime, *, has_month: bool, has_day: bool) -> datetime:
    if has_day:
        return start + timedelta(days=1)
    if has_month:
        return (start + timedelta(days=31)).replace(day=1)
    return start.replace(year=start.year + 1)


def _words_in(text: str) -> list[str]:
    return [word.rstrip(".:") for word in _WORD.findall(text)]


def _identifiers_in(text: str) -> tuple[str, ...]:
    """Names that look like code, in their order; a question of one word may be a name too."""
    words = _words_in(text)
    named = [word for word in words if _SIGNS_OF_CODE.search(word) or word.endswith(")")]
    named += [word for quoted in re.findall(r"`([^`]+)`", text) for word in _words_in(quoted)]
    if len(words) == 1:
        named += words
    bare = (re.sub(r"\(.*", "", word).lstrip("(@") for word in named)
    return _distinct(word for word in bare if _IDENTIFIER.fullmatch(word))


def _paths_in(text: str) -> tuple[str, ...]:
    words = (word.strip("()").removeprefix("./").lstrip("/") for word in _words_in(text))
    return _distinct(word for word in words if _PATH.fullmatch(word) and _is_path(word))


def _is_path(word: str) -> bool:
    name = word.rpartition("/")[2]
    return language_of(name) is not None if "." in name.strip(".") else "/" in word


def _distinct(words: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(words))


def _intent_of(text: str) -> Intent:
    for intent, pattern in _INTENTS.items():
        if re.search(pattern, text, re.IGNORECASE):
            return intent
    return "find_implementation" if _identifiers_in(text) else "understand_concept"

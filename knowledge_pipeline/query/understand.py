r"""Understands what a person typed: plain text, filters, identifiers, paths, intent. Pure.

`lang:python`, `path:"src/my app"` and their like become filters. A word before a colon
that names no filter is text, so `std::vector`, URLs and `C:\` stay what they are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal, get_args

from knowledge_pipeline.contract.filters import TIME_FILTERS, Filters, SourceType
from knowledge_pipeline.errors import InvalidQuery
from knowledge_pipeline.file_languages import detect_language
from knowledge_pipeline.query.filters import replace_invalid_characters
from knowledge_pipeline.times import parse_query_time
from knowledge_pipeline.words import VOWEL_SIGNS, expand_identifiers

Intent = Literal[
    "find_implementation", "understand_concept", "find_similar", "find_history", "debug_issue", "find_usage"
]

_FILTER_KEYS = {
    **{"lang": "languages", "language": "languages", "ext": "extensions", "source": "sources"},
    **{"type": "source_types", "repo": "repos", "branch": "branches", "path": "paths", "author": "authors"},
    **{"tag": "tags", "label": "labels", "project": "projects", "status": "statuses", "space": "spaces"},
    **{"channel": "channels", "kind": "kinds", "class": "classes", "import": "imports", "title": "titles"},
    **{"section": "sections", "namespace": "namespaces", "since": "since", "until": "until"},
    **{"component": "components", "fix_version": "fix_versions"},
    **{"created_since": "created_since", "created_until": "created_until"},
}
_FILTER_TERM = re.compile(
    rf"""(?<!\S)(?P<key>{"|".join(_FILTER_KEYS)}):(?:"(?P<double>[^"]+)"|'(?P<single>[^']+)'|"""
    r"""(?P<plain>(?![:"'])(?!//)\S+))(?!\S)""",
    re.IGNORECASE,
)
_SOURCE_TYPES = frozenset(get_args(SourceType))
_EMPTY = "the question is empty: say what to look for"

_WORD = re.compile(r"[^\s`'\"“”‘’,;!?<>{}\[\]]+")
_IDENTIFIER = re.compile(r"[^\W\d]\w*(?:(?:\.|::|#|->)[^\W\d]\w*)*")
_CODE_MARKS = re.compile(r"_|::|#|->|\w\.\w|[a-z\d][A-Z]|[A-Z]{2,}[a-z]")
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
    "error": re.compile(r"(error|exception|traceback|fails?|failed|cannot|invalid|warning)\b", re.I),
    "topic": re.compile(
        r"\A(?![\s\S]*(\?|\b(what|how|why|when|where|which|who|do|does|did|is|are|was|can|could|should|will"
        r"|has|have|i|we|my|our|me)\b))",
        re.I,
    ),
}
"""Kind of answer -> what a question that asks for it looks like; it may be of several kinds, or of none.

What a kind means for the order of results is learned (`ranker.json`): nothing is left out because of it."""

_INTENT_CHARS = 1_000  # of a text, in which a person has said what they want

_STOPWORD_LIST = """
    a about again all am an and any are as at be been being both but by can could did do does doing done down
    during each few for from further had has have having he her here him his how i if in into is it its just
    many me more most much must my no nor not of off on once only or other our out over own same shall she
    should so some such than that the their them then there these they this those through to too under until
    up us use used uses using very was we were what when where which while who whom whose why will with would
    you your
"""
_STOPWORDS = frozenset(_STOPWORD_LIST.split())
"""Words that say how a question is asked, not what about. They are left out of a query's keywords and not
out of the index, so that a question of such words alone ("to be or not to be") still finds them."""
_ASCII_TERM = re.compile(r"\w+(?:'\w+)?")
_TERM = re.compile(rf"[\w{VOWEL_SIGNS}]+(?:['’][\w{VOWEL_SIGNS}]+)?")


@dataclass(frozen=True, slots=True)
class ParsedQuery:
    """A question, understood."""

    text: str  # without the filter terms; never empty
    words: str  # without stopwords, identifiers split: what full text searches
    identifiers: tuple[str, ...] = ()  # "Store.get", without brackets
    paths: tuple[str, ...] = ()  # "src/auth.py", "auth.py"
    filters: Filters = field(default_factory=Filters)
    intent: Intent = "understand_concept"


def understand(text: str, *, now: datetime | None = None) -> ParsedQuery:
    """Read filters, identifiers, paths and intent out of a question.

    `since:30d` counts back from `now`, by default the present.

    Raises:
        InvalidQuery: it is empty, all filters, or has an invalid date.
    """
    if not text.strip():
        raise InvalidQuery(_EMPTY)
    filters, plain = _extract_filters(replace_invalid_characters(text), now)
    if not plain:
        raise InvalidQuery("the question has filters but no words: say what to look for")
    return replace(parse_plain_text(plain), filters=filters)


def read_filters(text: str) -> Filters:
    """The filters in a question's text. Raises `InvalidQuery` for an invalid date."""
    return _extract_filters(replace_invalid_characters(text), None)[0]


def parse_plain_text(text: str) -> ParsedQuery:
    """Reads identifiers, paths and intent out of a text; what looks like a filter in it is text."""
    plain = parse_verbatim(text)
    return replace(plain, identifiers=_extract_identifiers(plain.text), paths=_extract_paths(plain.text))


def parse_verbatim(text: str) -> ParsedQuery:
    """A text that is searched for as it is: a piece of code, a document."""
    plain = replace_invalid_characters(text).strip()
    if not plain:
        raise InvalidQuery(_EMPTY)
    words = remove_stopwords(expand_identifiers(plain))
    start = plain[:_INTENT_CHARS]
    intents: list[Intent] = [intent for intent, form in _INTENTS.items() if re.search(form, start, re.I)]
    intents.append("find_implementation" if _extract_identifiers(plain) else "understand_concept")
    return ParsedQuery(text=plain, words=words, intent=intents[0])


def _extract_filters(text: str, now: datetime | None) -> tuple[Filters, str]:
    values_by_filter: dict[str, list[str]] = {}

    def collect_term(match: re.Match[str]) -> str:
        key = match["key"].lower()
        quoted = match["double"] or match["single"]
        values = [quoted] if quoted else [value for value in match["plain"].split(",") if value]
        if not values or (key == "type" and not _SOURCE_TYPES.issuperset(values)):
            return match.group()  # `# type:ignore` is text
        values_by_filter.setdefault(_FILTER_KEYS[key], []).extend(values)
        return " "

    plain = text.strip()
    if _FILTER_TERM.search(text):
        plain = " ".join(_FILTER_TERM.sub(collect_term, text).split())
    times: dict[str, Any] = {
        name: parse_query_time(name, values_by_filter.pop(name)[-1], now)
        for name in TIME_FILTERS
        if name in values_by_filter
    }
    lists: dict[str, Any] = {name: tuple(values) for name, values in values_by_filter.items()}
    return Filters(**lists, **times), plain


def remove_stopwords(text: str) -> str:
    """The words of a text that say what it is about, in their order; all of them if none does."""
    words: list[str] = (_ASCII_TERM if text.isascii() else _TERM).findall(text)
    telling = [word for word in words if word.casefold() not in _STOPWORDS]
    return " ".join(telling or words) or text


def _split_words(text: str) -> list[str]:
    return [word.rstrip(".:") for word in _WORD.findall(text)]


def _extract_identifiers(text: str) -> tuple[str, ...]:
    """Names that look like code, in their order; a question of one word may be a name too."""
    words = _split_words(text)
    names = [word for word in words if _CODE_MARKS.search(word) or word.endswith(")")]
    names += [word for quoted in re.findall(r"`([^`]+)`", text) for word in _split_words(quoted)]
    if len(words) == 1:
        names += words
    bare = (re.sub(r"\(.*", "", word).lstrip("(@") for word in names)
    return tuple(dict.fromkeys(word for word in bare if _IDENTIFIER.fullmatch(word)))


def _extract_paths(text: str) -> tuple[str, ...]:
    """What looks like a path: the name of a file in a known language, or words with a slash."""
    paths: dict[str, None] = {}
    for word in _split_words(text):
        path = word.strip("()").removeprefix("./").lstrip("/")
        name = path.rpartition("/")[2]
        is_path = detect_language(name) is not None if "." in name.strip(".") else "/" in path
        if is_path and _PATH.fullmatch(path):
            paths[path] = None
    return tuple(paths)


def list_kinds(text: str) -> tuple[str, ...]:
    """The kinds of answer that a question asks for, by its beginning."""
    start = text[:_INTENT_CHARS]
    return tuple(kind for kind, form in QUESTION_KINDS.items() if form.search(start))


@dataclass(frozen=True, slots=True)
class QueryExpansion:
    """What the settings add to one question."""

    hypothetical_passage: str = ""  # its vector is searched for as well; empty: none
    terms: tuple[str, ...] = ()  # that full text searches for as well
    parts: tuple[str, ...] = ()  # each is searched for on its own; empty: the question is one
    problems: Mapping[str, str] = field(default_factory=dict[str, str])  # step -> why it failed


PassageForm = Literal["prose", "code"]

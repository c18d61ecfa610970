r"""Understands what a person typed: plain text, filters, identifiers, paths, intent, parts. Pure.

`lang:python`, `path:"src/my app"` and their like become filters. A word before a colon
that names no filter is text, so `std::vector`, URLs and `C:\` stay what they are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import pairwise
from typing import Any, Literal, get_args

from knowledge_pipeline.config.settings import QuerySettings
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


MAX_PARTS = 4

_MAX_CHARS = 1000
_MAX_CONTEXT_WORDS = 30  # before a list, or before the first question; more is no context
_MIN_WORDS = 3  # of a question that stands alone
_MAX_SIDE_WORDS = 8  # of one side of a comparison

_CODE = re.compile(r"```|[{};]\s*$|=>|::\s*$", re.MULTILINE)
_NUMBERED = re.compile(r"^[ \t]*\(?(\d{1,2})[.)][ \t]+", re.MULTILINE)
_INLINE_NUMBER = re.compile(r"(?:^|(?<=\s))\(?(\d)\)\s+")
_BULLET = re.compile(r"^[ \t]*[-*•][ \t]+()", re.MULTILINE)
_AFTER_QUESTION = re.compile(r"(?<=\S\?)\s+")
_AFTER_STATEMENT = re.compile(r"(?<=[\w)][.!])\s+(?=[A-Z])")
_QUESTION_WORDS = "how|what|where|when|who|why|which"
_VERBS = "is|are|was|were|do|does|did|can|could|should|will|would|has|have|must|may|might"
_QUESTION = re.compile(rf"(?:and\s+|also\s+)*(?:{_QUESTION_WORDS}|{_VERBS})\b", re.IGNORECASE)
_AND_ASKS = re.compile(
    rf",?\s+and\s+(?:also\s+)?(?=(?:(?:{_QUESTION_WORDS})|how\s+(?:many|much|long|often)\s+\w+)\s+(?:{_VERBS})\b)",
    re.IGNORECASE,
)
_REFERS_BACK = re.compile(
    r"\b(it|its|they|them|their|theirs|this|these|those|he|him|his|she|her|there|former|latter|same)\b",
    re.IGNORECASE,
)
_PLEASE = r"(?:please\s+|can you\s+|could you\s+)"
_COMPARISONS = tuple(  # `(?<!\s)`: from inside a run of blanks nothing is found that its start has not
    (re.compile(whole, re.IGNORECASE | re.DOTALL), re.compile(rf"(?<!\s){between}", re.IGNORECASE), max_sides)
    for whole, between, max_sides in (
        (r"\bdifferences?\s+between\s+(.+)", r"\s+and\s+", 2),
        (rf"^{_PLEASE}?compare\s+(.+)", r"\s+(?:and|with|to|against)\s+(?:with\s+|to\s+)?", 2),
        (r"^how\s+(?:do|does|did)\s+(.+\sdiffer\s+from\s.+)", r"\s+differ\s+from\s+", 2),
        (r"^(.+\s(?:vs\.?|versus)\s.+)", r"\s+(?:vs\.?|versus)\s+", 3),
    )
)
"""The forms of a comparison, what stands between its sides, and how many there can be."""
_INNER_END = re.compile(r"[.!?]\s")


def decompose(text: str) -> tuple[str, ...]:
    """The parts of a compound question, at most `MAX_PARTS`; the question alone where it is one.

    The parts of a comparison are itself and its sides; those of a list are its items, and several
    questions are parts themselves, each prefixed by what is said before the first. No word is lost: each
    stands in some part, except those that only join the parts ("and", "also") and the marks of a list. A
    question that no rule surely understands stays whole.
    """
    plain = text.strip()
    if len(plain) > _MAX_CHARS or _CODE.search(plain):
        return (plain,)
    for rule in (_split_list, _split_questions, _split_comparison):
        if len(parts := rule(plain)) > 1:
            size, more = divmod(len(parts), MAX_PARTS)  # neighbours go together where there are too many
            starts = [group * size + min(group, more) for group in range(MAX_PARTS + 1)]
            groups = (" ".join(parts[start:end]) for start, end in pairwise(starts))
            return tuple(filter(None, groups))
    return (plain,)


@dataclass(frozen=True, slots=True)
class QueryExpansion:
    """What the settings add to one question."""

    hypothetical_passage: str = ""  # its vector is searched for as well; empty: none
    terms: tuple[str, ...] = ()  # that full text searches for as well
    parts: tuple[str, ...] = ()  # each is searched for on its own; empty: the question is one
    problems: Mapping[str, str] = field(default_factory=dict[str, str])  # step -> why it failed


PassageForm = Literal["prose", "code"]


def expand_by_rules(question: str, settings: QuerySettings) -> QueryExpansion:
    """What needs no language model: the parts of a compound question."""
    parts = decompose(question) if settings.decompose == "rules" else ()
    return QueryExpansion(parts=parts if len(parts) > 1 else ())


def _split_list(text: str) -> list[str]:
    """The items of a numbered list, or of one with bullets whose items all ask."""
    for mark in (_NUMBERED, _INLINE_NUMBER):
        marks = list(mark.finditer(text))
        if len(marks) > 1 and [int(mark[1]) for mark in marks] == list(range(1, len(marks) + 1)):
            return _split_items(text, marks)
    items = _split_items(text, list(_BULLET.finditer(text)))
    return items if all(item.endswith("?") for item in items) else []


def _split_items(text: str, marks: Sequence[re.Match[str]]) -> list[str]:
    if not marks:
        return []
    ends = [*(mark.start() for mark in marks[1:]), len(text)]
    items = [text[mark.end() : end].strip() for mark, end in zip(marks, ends, strict=True)]
    return _prefix_each(text[: marks[0].start()].strip(), items) if all(items) else []


def _split_questions(text: str) -> list[str]:
    """Questions that follow each other, as sentences or after an "and", and can stand alone.

    A sentence that cannot stand alone stays with the one before it.
    """
    sentences: list[str] = []
    for sentence in _AFTER_QUESTION.split(text):
        if sentences and not (_stands_alone(sentence) and _stands_alone(sentences[0], first=True)):
            sentences[-1] += f" {sentence}"
        else:
            sentences.append(sentence)
    before, first = _split_statements(sentences[0])
    questions = [half for sentence in (first, *sentences[1:]) for half in _split_halves(sentence)]
    return _prefix_each(before, questions)


def _stands_alone(sentence: str, *, first: bool = False) -> bool:
    _, question = _split_statements(sentence)
    asks = bool(_QUESTION.match(question)) and question.endswith("?")
    return asks and len(question.split()) >= _MIN_WORDS and (first or not _REFERS_BACK.search(question))


def _split_statements(sentence: str) -> tuple[str, str]:
    cuts = list(_AFTER_STATEMENT.finditer(sentence))
    return (sentence[: cuts[-1].start()], sentence[cuts[-1].end() :]) if cuts else ("", sentence)


def _split_halves(question: str) -> list[str]:
    """`How is A done and where is B set?` is two."""
    cut = _AND_ASKS.search(question)
    if cut is None or not _QUESTION.match(question):
        return [question]
    halves = [question[: cut.start()], question[cut.end() :]]
    long_enough = all(len(half.split()) >= _MIN_WORDS for half in halves)
    return halves if long_enough and not _REFERS_BACK.search(halves[1]) else [question]


def _split_comparison(text: str) -> list[str]:
    """A comparison, then its two sides; three, for `A vs B vs C`."""
    for whole, between, max_sides in _COMPARISONS:
        if match := whole.search(text):
            sides = [side.strip(" \t\n?.!,:") for side in between.split(match[1])]
            short = all(0 < len(side.split()) <= _MAX_SIDE_WORDS for side in sides)
            unclear = any(_INNER_END.search(side) or _REFERS_BACK.search(side) for side in sides)
            return [text, *sides] if 2 <= len(sides) <= max_sides and short and not unclear else []
    return []


def _prefix_each(context: str, parts: Sequence[str]) -> list[str]:
    if len(context.split()) > _MAX_CONTEXT_WORDS:
        return []
    return [f"{context} {part}" for part in parts] if context else list(parts)

r"""Understands what a person typed (plain text, filters, identifiers, paths, intent) and plans its search.

`lang:python`, `path:"src/my app"` and their like become filters, where something has the value: see
`known_values`. A word before a colon that names no filter is text, so `std::vector`, URLs and `C:\` stay what
they are. A plan says what a type of search looks for and how deep, and which rows it may find.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal, get_args

import numpy as np

from knowledge_pipeline.config.settings import SearchDepth, SearchDepths
from knowledge_pipeline.contract.aliases import SINGULAR_FILTERS
from knowledge_pipeline.contract.filters import (
    EXACT_MODES,
    LIST_FILTERS,
    TIME_FILTERS,
    ContentType,
    DocumentType,
    Filters,
    SearchMode,
    SearchType,
    SourceType,
    build_single_filter,
    parse_source_type,
)
from knowledge_pipeline.errors import InvalidQuery
from knowledge_pipeline.file_languages import detect_language
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.documents import ExampleFile
from knowledge_pipeline.query.filters import compile_filter, replace_invalid_characters
from knowledge_pipeline.store.filters import Filter
from knowledge_pipeline.times import parse_query_time
from knowledge_pipeline.words import VOWEL_SIGNS, expand_identifiers

Intent = Literal[
    "find_implementation", "understand_concept", "find_similar", "find_history", "debug_issue", "find_usage"
]

_FILTER_KEYS = {
    **SINGULAR_FILTERS,
    **{"lang": "languages", "ext": "extensions", "type": "source_types"},
    **{name: name for name in TIME_FILTERS},
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

_USAGE_QUESTION = re.compile(rf"{_INTENTS['find_usage']}|\b(who|what|which \w+) (calls?|uses?)\b", re.I)
_USED_NAME = re.compile(
    r"\b(?:(?:who|what|which \w+) (?:calls?|uses?)|(?:callers?|call sites?|usages?|references?) (?:of|to)"
    r"|depends? on|where (?:is|are)) (?:the )?(?:(?:function|method|class) )?(?P<name>\S+)"
    r"(?P<end>$| (?:is |are )?(?:called|used|referenced|imported|in|from|and)\b)?",
    re.I,
)
_MAX_USED_NAMES = 3
_MAX_QUESTION_CHARS = 300

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
STOPWORDS = frozenset(_STOPWORD_LIST.split())
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


@dataclass(frozen=True, slots=True)
class FilterTerm:
    """A word of a question that has the form of a filter: `lang:python`."""

    text: str  # as it is typed
    filters: Filters = field(default_factory=Filters)  # what it means; none: it has a `problem`
    problem: str = ""  # why it means nothing, in a sentence


def read_terms(text: str, now: datetime | None = None) -> list[FilterTerm]:
    """The words of a question that have the form of a filter, each text once."""
    terms = (_parse_term(match, now) for match in _FILTER_TERM.finditer(replace_invalid_characters(text)))
    return list({term.text: term for term in terms if term}.values())


def _parse_term(match: re.Match[str], now: datetime | None) -> FilterTerm | None:
    quoted = match["double"] or match["single"]
    values = [quoted] if quoted else [value for value in match["plain"].split(",") if value]
    name = _FILTER_KEYS[match["key"].lower()]
    if not values:
        return None
    if name in TIME_FILTERS:
        try:
            return FilterTerm(
                match.group(), build_single_filter(name, parse_query_time(name, values[-1], now))
            )
        except InvalidQuery:
            return FilterTerm(match.group(), problem="a date is written 2024-01-31, or 30d")
    if name == "source_types":
        values = [parse_source_type(value) for value in values]
        if not _SOURCE_TYPES.issuperset(values):  # `# type:ignore`
            return FilterTerm(match.group(), problem=f"types are {', '.join(sorted(_SOURCE_TYPES))}")
    return FilterTerm(match.group(), build_single_filter(name, tuple(values)))


def understand(
    text: str, *, now: datetime | None = None, as_words: Collection[str] = frozenset()
) -> ParsedQuery:
    """Read filters, identifiers, paths and intent out of a question.

    `since:30d` counts back from `now`, by default the present. `as_words`: terms that have the form of a
    filter, and are words of the question all the same.

    Raises `InvalidQuery`: it is empty, or all filters.
    """
    if not text.strip():
        raise InvalidQuery(_EMPTY)
    filters, plain = _extract_filters(replace_invalid_characters(text), now, as_words)
    if not plain:
        raise InvalidQuery("the question has filters but no words: say what to look for")
    return replace(parse_plain_text(plain), filters=filters)


def read_filters(text: str) -> Filters:
    """The filters in a question's text."""
    return _extract_filters(replace_invalid_characters(text), None, frozenset())[0]


def localize_paths(text: str, localize: Callable[[str], str]) -> str:
    """A question whose `path:` terms have the patterns that `localize` gives; what it refuses stays."""

    def rewrite(match: re.Match[str]) -> str:
        value = match["double"] or match["single"] or match["plain"]
        if match["key"].lower() != "path":
            return match.group()
        with suppress(InvalidQuery):
            localized = map(localize, value.split(",") if match["plain"] else [value])
            return match.group().replace(value, ",".join(localized))
        return match.group()

    return _FILTER_TERM.sub(rewrite, text)


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


def _extract_filters(text: str, now: datetime | None, as_words: Collection[str]) -> tuple[Filters, str]:
    merged: dict[str, Any] = {}

    def collect_term(match: re.Match[str]) -> str:
        term = _parse_term(match, now)
        if term is None or term.problem or term.text in as_words:
            return match.group()
        name = _FILTER_KEYS[match["key"].lower()]
        value = getattr(term.filters, name)
        merged[name] = value if name in TIME_FILTERS else (*merged.get(name, ()), *value)
        return " "

    plain = text.strip()
    if _FILTER_TERM.search(text):
        plain = " ".join(_FILTER_TERM.sub(collect_term, text).split())
    return Filters(**merged), plain


def remove_stopwords(text: str) -> str:
    """The words of a text that say what it is about, in their order; all of them if none does."""
    words: list[str] = (_ASCII_TERM if text.isascii() else _TERM).findall(text)
    telling = [word for word in words if word.casefold() not in STOPWORDS]
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


def find_used_names(text: str) -> tuple[str, ...]:
    """The names whose users a question asks for: `retry` of "who calls retry?"; of other questions none.

    A plain word is a name only where nothing but it can be meant. What a long text mentions is not what it
    asks for.
    """
    question = " ".join(text.split())
    if len(question) > _MAX_QUESTION_CHARS or not _USAGE_QUESTION.search(question):
        return ()
    identifiers, used = _extract_identifiers(question), dict[str, None]()
    for match in _USED_NAME.finditer(question):
        name = re.sub(r"\(.*", "", next(iter(_split_words(match["name"])), ""))
        if name in identifiers or (match["end"] is not None and _IDENTIFIER.fullmatch(name)):
            used[name] = None
    return (tuple(used) or identifiers)[:_MAX_USED_NAMES]


def list_kinds(text: str) -> tuple[str, ...]:
    """The kinds of answer that a question asks for, by its beginning."""
    start = text[:_INTENT_CHARS]
    return tuple(kind for kind, form in QUESTION_KINDS.items() if form.search(start))


def asks_for_code(text: str) -> bool:
    """Whether a question asks where or how something is done, and not when or why it changed."""
    kinds = list_kinds(text)
    return "location" in kinds and "history" not in kinds


_KEYWORDS = (
    "abstract|async|await|class|const|def|enum|export|extern|final|fn|from|fun|func|function|impl|import|inline"
    "|interface|let|module|mut|namespace|open|override|package|private|protected|pub|public|require|return"
    "|static|struct|template|throw|trait|type|typedef|unsafe|use|using|val|var|virtual"
    "|SELECT|CREATE|INSERT|UPDATE"
)
_CODE_LINE = re.compile(
    r"""^\s*(?:[\]})]|@\w|//|/\*|\#(?:include|define|!|if)|<[/!?a-zA-Z]|[^\s,]+,\s*$)"""
    rf"""|^\s*(?:(?:{_KEYWORDS})\s+)+[\w.$*&"'({{\[<:]+\s*"""
    r"""(?:$|[-({:=<;,\[.*]|(?:import|from|extends|implements|as)\b)"""
    r"""|^\s*(?:if|for|while|elif|else|try|with|except|finally|case|match|switch|catch|do|default)\b.*[:{(]"""
    r"""|(?:[{};(\[=]|[)>\w\]]\s*=>|\)\s*:|->)\s*$|[\w)\]]\s*(?:[-+*/|&^%:]?=|->)\s*\S"""
    r"""|\w\([^()\s]*\)\s*[.,;)]?\s*$"""
)
_PROSE_LINE = re.compile(r"(?:\b[A-Za-z]+ ){6}|[a-z)`'\"][.?!]\s*$")
_CODE_LINES = 200  # of a text, that tell what it is


def is_code(text: str) -> bool:
    """Whether half of the lines of a text have the form of code, or a quarter and the first of them."""
    lines = [line for line in text.splitlines() if line.strip()][:_CODE_LINES]
    marks = [bool(_CODE_LINE.search(line)) and not _PROSE_LINE.search(line) for line in lines]
    return bool(marks) and sum(marks) >= len(marks) * (0.25 if marks[0] else 0.5)


@dataclass(frozen=True, slots=True)
class QueryExpansion:
    """What the settings add to one question."""

    hypothetical_passage: str = ""  # its vector is searched for as well; empty: none
    terms: tuple[str, ...] = ()  # that full text searches for as well
    parts: tuple[str, ...] = ()  # each is searched for on its own; empty: the question is one
    problems: Mapping[str, str] = field(default_factory=dict[str, str])  # step -> why it failed


PassageForm = Literal["prose", "code"]


MIN_CANDIDATES = 100  # of each search of each space, where the settings name no number
_FILE_CHARS = 20_000  # of a file, as words to find others like it


@dataclass(frozen=True, slots=True)
class SearchProfile:
    """What a search type looks for, and how deep."""

    rerank_candidates: int  # hits that are reranked
    default_limit: int  # results of a question without a limit
    filters: Filters = field(default_factory=Filters)
    floor: float = 0.0  # a result below this score is not relevant
    recency_boost: float = 0.0  # of the newest result, to the log-odds of its score
    is_example: bool = False  # the text is searched for as it is: not parsed, expanded or decomposed
    enrich: bool = False  # the best code comes with its neighbours in the code graph
    diverse: bool = False  # of nearly equal results the first is shown, further chunks of a file count less

    def resolve_limit(self, requested: int | None, depth: SearchDepth) -> int:
        """The limit that applies to a request. Raises `InvalidQuery` if it is below 1."""
        if requested is None:
            return depth.default_k or self.default_limit
        if requested < 1:
            raise InvalidQuery(f"found limit {requested}; allowed: 1 or more")
        return requested


PROFILES: Mapping[SearchType, SearchProfile] = {
    "semantic": SearchProfile(20, 5, diverse=True, enrich=True),
    "code": SearchProfile(30, 10, Filters(source_types=("code",)), diverse=True, enrich=True),
    "similar": SearchProfile(20, 5, is_example=True),
    "historical": SearchProfile(
        50, 10, Filters(source_types=("git_history", "github_pr")), floor=0.25, recency_boost=0.5
    ),
}


def get_profile(type_: str) -> SearchProfile:
    """The profile of a search type. Raises `InvalidQuery` if there is no such type."""
    for name, profile in PROFILES.items():
        if name == type_:
            return profile
    raise InvalidQuery(f"found the search type {type_!r}; allowed: {', '.join(PROFILES)}")


_TYPE_BY_INTENT: Mapping[Intent, SearchType] = {
    "find_history": "historical",
    "find_implementation": "code",
    "find_usage": "code",
}


def choose_type(text: str) -> SearchType:
    """The type of search that suits the intent of a question. Raises `InvalidQuery`: it is empty."""
    if not text.strip():
        raise InvalidQuery(_EMPTY)
    plain = _extract_filters(text, None, frozenset())[1]
    return _TYPE_BY_INTENT.get(parse_plain_text(plain or text).intent, "semantic")


@dataclass(frozen=True, slots=True)
class SearchQuestion:
    """What to search for, and how; whoever asks. Chunks like an example are searched for by `similar`."""

    text: str | None  # None: of an example, the text of the file at its path
    type: SearchType = "semantic"
    filters: Filters = field(default_factory=Filters)  # with an example's path by default its source type
    within: Filters = field(default_factory=Filters)  # these hold as well
    limit: int | None = None  # None: that of the type
    explain: bool = False
    diverse: bool = True  # no nearly equal results, and further chunks of a file count less
    mode: SearchMode = "hybrid"  # by `words` no model is asked; by `vectors` no full text; see `exact`
    path: str | None = None  # of an example within its source; its own chunks are left out
    source: str | None = None  # where several have such a path
    content_type: ContentType | None = None  # of what is like a text; None: see `detect_content_type`

    @property
    def is_exact(self) -> bool:
        """Whether the text is searched for as it is written: nothing in it is a filter."""
        return self.mode in EXACT_MODES


_CONTENT_TYPES: Mapping[ContentType, tuple[SourceType, ...]] = {
    "code": ("code",),
    "document": get_args(DocumentType),
}
_WITHIN_CODE = ("repos", "branches", "tags", "namespaces")


def detect_content_type(question: SearchQuestion) -> ContentType | None:
    """Code for an example that is code, where no filter says in which sources, types or files to look."""
    if question.type != "similar" or question.path is not None or question.content_type is not None:
        return question.content_type
    of_places = (name for name in LIST_FILTERS if name not in _WITHIN_CODE)
    if any(getattr(it, name) for name in of_places for it in (question.filters, question.within)):
        return None
    return "code" if is_code(question.text or "") else None


@dataclass(frozen=True, slots=True)
class SearchPlan:
    """A question that is understood: what to look for, for whom, and what to return."""

    question: SearchQuestion
    query: ParsedQuery
    profile: SearchProfile
    depth: SearchDepth
    limit: int
    access: Access
    restrictions: tuple[Filters, ...]  # all of them hold
    condition: Filter  # on rows: what the caller may see, and the restrictions
    known_vectors: Mapping[str, np.ndarray]  # by space: of an example's file

    @property
    def diverse(self) -> bool:
        """See `SearchProfile`."""
        return self.profile.diverse and self.question.diverse

    @property
    def rerank_limit(self) -> int:
        """How many hits are reranked."""
        return max(self.depth.rerank_k or self.profile.rerank_candidates, 2 * self.limit)

    @property
    def candidate_limit(self) -> int:
        """Candidates of each search of each space: as many as are reranked, at least."""
        return max(self.depth.candidates or MIN_CANDIDATES, self.rerank_limit)


def plan_search(
    question: SearchQuestion,
    access: Access,
    depths: SearchDepths,
    example: ExampleFile | None = None,
    *,
    as_words: Collection[str] = frozenset(),
) -> SearchPlan:
    """Understand a question; `example` is the file at its path, `as_words` as for `understand`.

    Raises `InvalidQuery`: the question, its filters, type, mode or limit make no sense.
    """
    profile = get_profile(question.type)
    if question.mode not in get_args(SearchMode):
        allowed = ", ".join(get_args(SearchMode))
        raise InvalidQuery(f"found the search mode {question.mode!r}; allowed: {allowed}")
    if question.is_exact and profile.is_example:
        raise InvalidQuery(f"found the mode {question.mode} for what is similar: search without type similar")
    if question.content_type not in (None, *_CONTENT_TYPES):
        allowed = ", ".join(_CONTENT_TYPES)
        raise InvalidQuery(f"found content_type {str(question.content_type)[:40]!r}; allowed: {allowed}")
    filters, text, vectors = question.filters, question.text, dict[str, np.ndarray]()
    content_type = detect_content_type(question)
    if content_type and not filters.source_types:
        filters = replace(filters, source_types=_CONTENT_TYPES[content_type])
    if example:
        filters = replace(filters, source_types=filters.source_types or (example.source_type,))
        if text is None:
            text, vectors = example.text[:_FILE_CHARS], {**example.vectors}
    text = text or ""
    if question.is_exact and text.strip():
        query = ParsedQuery(replace_invalid_characters(text), "")
    else:
        query = parse_verbatim(text) if profile.is_example else understand(text, as_words=as_words)
    restrictions = (filters, question.within, query.filters, profile.filters)
    condition = compile_filter(access, *restrictions)
    if example:
        condition &= example.other_files
    depth: SearchDepth = getattr(depths, question.type)
    limit = profile.resolve_limit(question.limit, depth)
    return SearchPlan(
        question, query, profile, depth, limit, access, restrictions, condition, known_vectors=vectors
    )

"""Texts as grammars can read them: of C and C++ macros become spaces, of Kotlin types of one line are ended.

A grammar sees no preprocessor: for it `class API Store : Base {` is a function, and what both branches of an
`#ifdef` open is opened twice. Every byte keeps its place, so the offsets of the tree are those of the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_MACRO = r"\b_{0,2}[A-Z][A-Z0-9_]+\b"
_ARGUMENTS = r"(?:[ \t]*+\((?:[^()]++|\((?:[^()]++|\([^()]*+\))*+\))*+\))"
_CALL = rf"{_MACRO}{_ARGUMENTS}?+"
_TYPE_HEAD = r"\w++(?:::\w++)*+\s?(?:<[^;{}()]{0,200}>)?\s*+(?:final\s*+)?(?:\{|:(?![:\d]))"
_LOCKS = (  # https://clang.llvm.org/docs/ThreadSafetyAnalysis.html
    r"(?:[A-Z]++_)??(?:(?:EXCLUSIVE|SHARED)_(?:LOCKS_REQUIRED|(?:TRY)?LOCK_FUNCTION)|LOCKS_EXCLUDED|UNLOCK_FUNCTION"
    r"|LOCK_RETURNED|ASSERT_(?:EXCLUSIVE|SHARED)_LOCK|NO_THREAD_SAFETY_ANALYSIS|(?:TRY_)?ACQUIRE(?:_SHARED)?"
    r"|RELEASE(?:_SHARED|_GENERIC)?|REQUIRES(?:_SHARED)?|EXCLUDES|ASSERT_(?:SHARED_)?CAPABILITY|RETURN_CAPABILITY)"
)
_NOEXCEPT = r"[A-Z_]*NOEXCEPT(?:_IF)?"
_STORAGE = (
    r"[A-Z0-9_]*?(?:EXPORTS?|API|PUBLIC|INLINE|NODISCARD|CONSTEXPR|DEVICE"
    rf"|DEPRECATED[A-Z0-9_]*+{_ARGUMENTS}?+)\d*+\b"
)
_ATTRIBUTE = r"[A-Z0-9_]*?(?:ATTR|DEPRECATED|NONNULL|NORETURN|PRINTF|UNUSED)[A-Z0-9_]*+"
_NAMESPACE = r"[A-Z0-9_]*(?:(?:BEGIN|END)_(?:NAMESPACE|DECLS)|NAMESPACE_(?:BEGIN|END))[A-Z0-9_]*+"
_QT = (
    r"Q_(?:OBJECT|GADGET|NAMESPACE|PROPERTY|ENUM|FLAG|CLASSINFO|INTERFACES|DISABLE|INVOKABLE|EMIT"
    r"|SIGNAL|SLOT)[A-Z_]*+"
)
_UNREAL = r"U(?:CLASS|STRUCT|ENUM|INTERFACE|FUNCTION|PROPERTY|DELEGATE)(?=\()|GENERATED_(?:[A-Z]+_)?BODY"
_DECLARES = (
    "public|private|protected|class|struct|template|virtual|static|explicit|namespace|typedef|using|enum"
    "|friend"
)


def _compile(pattern: str) -> re.Pattern[bytes]:
    return re.compile(pattern.encode(), re.VERBOSE)


_PATTERNS = (  # each begins with a plain text, which is found fast
    *(
        _compile(
            rf"{kind}(?<!\w{kind})\s++(?:(?:class|struct)\s++)?(?P<macro>{_CALL}(?:\s++{_CALL}){{0,3}}?)"
            rf"(?=\s++(?!final\b)(?:{_TYPE_HEAD}{also}))"
        )
        for kind, also in (("class", r"|\w++\s*+;"), ("struct", ""), ("union", ""), ("enum", ""))
    ),
    _compile(rf"namespace\s++\w++(?:::\w++)*+\s++(?P<macro>{_CALL})(?=\s*+\{{)"),
    _compile(
        rf"""\n[ \t]*+(?=[A-Z_efipsv])(?:
        (?P<macro>(?:{_NAMESPACE}|{_QT}|{_UNREAL})\b{_ARGUMENTS}?+|{_CALL}(?=\s++(?:{_DECLARES})\b)
            |emit(?=[ ]\w[\w.:>-]*+\())
        |(?:(?:extern(?:\s"C")?+|static|inline|virtual|friend)[ ])*+(?P<storage>{_STORAGE})(?=\s++[\w~:\[])
        |(?:public|protected|private)[ \t]++(?P<slots>Q_SLOTS|slots)[ \t]*+:(?!:))"""
    ),
    _compile(
        rf"""\)\s*+(?:(?:const|override|final)\b\s*+)*+(?=[A-Z_])(?P<macro>(?:{_LOCKS}|{_NOEXCEPT})\b{_ARGUMENTS}?+
            (?:\s++{_LOCKS}\b{_ARGUMENTS}?+)*+
            |(?:{_ATTRIBUTE}{_ARGUMENTS}?+\s*+){{1,4}}+(?=;)
            |{_MACRO}(?=\s*+(?:\{{|(?:override|final|const|noexcept)\b|=\s*+(?:0|default|delete)\b)))"""
    ),
    *(
        _compile(rf"(?P<macro>{word}{_ARGUMENTS}?+)")
        for word in (r"GUARDED_(?:BY|VAR)\b", r"ACQUIRED_(?:BEFORE|AFTER)\b")
    ),
    _compile(rf"(?P<macro>U(?<!\wU)(?:META|PARAM){_ARGUMENTS})"),
)
_SIGNALS = re.compile(rb"\n[ \t]*+(?P<macro>signals|Q_SIGNALS)[ \t]*+:(?!:)")
_NAME_START = re.compile(rb"[A-Z_]*\Z")
_MAX_CONTINUED_LINES = 60
_MAX_NESTED_TYPES = 3  # on one line

_CONDITIONAL = re.compile(rb"\n[ \t]*+#[ \t]*+(if|el|endif)\w*+(?:[^\n\\]++|\\[\s\S])*+")
_NOT_CODE = re.compile(
    rb"""//[^\n]*+|/\*(?:[\s\S]*?\*/|[\s\S]*+)|"(?:[^"\\\n]++|\\.)*+"|'(?:[^'\\\n]++|\\.)*+'"""
    rb"""|\n[ \t]*+#(?:[^\n\\]++|\\[\s\S])*+"""
)
_INITIALIZERS = re.compile(rb"\)\s*+:\Z")
_OPEN_ARGUMENTS = re.compile(rb"\((?:[^(){};]|\([^()]*+\))*+\Z")
_CONTINUES = (b",", b"(", b"=", b"?", b"&&", b"||")
_CONTINUED = (b",", b")", b"?", b"&&", b"||", b"else ")
_ONE_LINE_TYPE = re.compile(
    rb"(?<!:)\b(?:class|object|interface)\b[^\n{}]{0,300}+\{"
    rb"(?:[^\n{} ]++|[ ](?!\})|\{(?:[^\n{}]++|\{[^\n{}]*+\})*+\})*+(?<![{;])(?P<end>[ ])\}"
)
_VISIBLE = re.compile(rb"[^\n]")


def blank_macros(source: bytes) -> bytes:
    """A text of C or C++ with spaces for what the grammars cannot read."""
    text = bytearray(b"\n" + source + b"\n")  # what begins a line is found by the end of the line before
    conditionals = list(_iter_conditions(text))
    for start, end in conditionals:
        _blank(text, start, end)
    spans = [span for pattern in _PATTERNS for span in _iter_macros(pattern, text)]
    signals = list(_iter_macros(_SIGNALS, text)) if b"Q_OBJECT" in text else []
    for start, end in spans:
        _blank(text, start, end)
        if end - start >= 4 and text[end] == 10 and not text[text.rfind(b"\n", 0, start) : start].strip():
            text[start : start + 2], text[end - 2 : end] = b"/*", b"*/"  # stays with what it stands above
    for start, end in signals:
        text[start:end] = b"public".ljust(end - start)
    return bytes(text[1:-1]) if spans or signals or conditionals else source


def end_members(source: bytes) -> bytes:
    """A text of Kotlin with a semicolon where the last member of a type has the line of its closing brace.

    The grammar ends a member with a line or a semicolon alone: `companion object { const val MAX = 1 }`.
    """
    for _ in range(_MAX_NESTED_TYPES):
        ends = [match.start("end") for match in _ONE_LINE_TYPE.finditer(source)]
        text = bytearray(source)
        for at in ends:
            text[at] = ord(";")
        source = bytes(text)
    return source


def _blank(text: bytearray, start: int, end: int) -> None:
    text[start:end] = _VISIBLE.sub(b" ", text[start:end])


def _iter_macros(pattern: re.Pattern[bytes], text: bytearray) -> Iterator[tuple[int, int]]:
    for match in pattern.finditer(text):
        start, end = match.span(match.lastgroup or 0)
        name = _NAME_START.search(text, max(0, start - 40), start)
        if not _is_in_directive(text, start):
            yield (name.start() if name else start), end


def _is_in_directive(text: bytearray, position: int) -> bool:
    """Whether a line, or one that it continues, is for the preprocessor."""
    for _ in range(_MAX_CONTINUED_LINES):
        start = text.rfind(b"\n", 0, position) + 1
        if text[start:position].lstrip().startswith(b"#"):
            return True
        if start < 2 or text[start - 2] != ord("\\"):
            return False
        position = start - 1
    return True


@dataclass(slots=True)
class _Conditional:
    directives: list[tuple[int, int]]
    balances: list[int] = field(default_factory=lambda: [0])  # of each branch: braces that it leaves open


def _iter_conditions(text: bytearray) -> Iterator[tuple[int, int]]:
    """Where conditions with parts of statements in their branches stand, and all but the first of these."""
    around: list[_Conditional] = []
    before = 0
    for match in _CONDITIONAL.finditer(text):
        if around:
            around[-1].balances[-1] += _count_open(text[before : match.start()])
        before = match.end()
        if match[1] == b"if":
            around.append(_Conditional([match.span()]))
        elif around:
            around[-1].directives.append(match.span())
            if match[1] == b"el":
                around[-1].balances.append(0)
                continue
            ended = around.pop()
            first, *others = ended.directives
            is_unbalanced = len(set(ended.balances)) == 1 and ended.balances[0]
            if is_unbalanced or _is_within_expression(text, first, others[0]):
                yield first
                yield others[0][0], others[-1][1]
            if around:
                around[-1].balances[-1] += ended.balances[0]


def _is_within_expression(text: bytearray, first: tuple[int, int], second: tuple[int, int]) -> bool:
    """Whether a condition stands among the initializers of a constructor, or where a statement goes on."""
    before = text[max(0, first[0] - 80) : first[0]].rstrip()
    last = text[max(first[1], second[0] - 80) : second[0]].rstrip()[-1:]
    if text[first[1] : min(first[1] + 80, second[0])].lstrip().startswith(_CONTINUED):
        return True
    ends = b";{}" if _OPEN_ARGUMENTS.search(before) else b",;{}"
    return bool(_INITIALIZERS.search(before)) or (before.endswith(_CONTINUES) and last not in ends)


def _count_open(text: bytearray) -> int:
    if text.count(b"{") == text.count(b"}"):
        return 0
    code = _NOT_CODE.sub(b"", text)
    return code.count(b"{") - code.count(b"}")

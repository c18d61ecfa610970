"""The only module that uses tree-sitter: a text becomes a syntax tree with offsets in characters.

Grammars are imported when their language is first met. What each language's nodes
mean is written in `queries/*.scm`. tree-sitter counts bytes; nothing outside this
module does.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from itertools import accumulate, chain
from operator import attrgetter
from typing import TypeGuard

from tree_sitter import Language, Node, Parser, Query, QueryCursor

from knowledge_pipeline.file_languages import GRAPH_LANGUAGES
from knowledge_pipeline.syntax.macros import blank_macros, end_members

# The limit of a parse is in reports of progress, so that a slow machine cuts a file as a fast
# one does; sound code needs one report for 30 to 140 bytes. The seconds are a last resort.
_PROGRESS_REPORTS_PER_BYTE = 0.2
_MIN_PROGRESS_REPORTS = 10_000
_MAX_CPU_S = 10.0
_REPORTS_BETWEEN_CLOCKS = 16  # reading the clock of a thread is a system call

# A scanner that looks for an end that a broken file lacks reads all of it at every error, between two
# reports of progress. Sound code needs 1 to 110 reads for a kilobyte, where parsers go back and forth.
# The first languages are not limited: some of their files might be cut otherwise than they are stored.
_MIN_READS = 1_000
_READS_PER_BLOCK = 500

_MAX_ERROR_SHARE = 0.5
_MAX_LEFT_OUT_SHARE = 0.2  # of the signs of a text that is mended
_WIDE_ERROR_SHARE = 0.02  # of a text: from there on, lines are left out of it
_MAX_MENDED_LINES = 5
_MAX_ERROR_CHILDREN = 10_000  # queries over wider ERROR nodes take quadratic time

# Queries take time for each node and pattern that has begun around it, and a node finds its parent from
# the root: chains like `a+a+a` are quadratic. Sound code is at most 200 deep and 130 patterns wide, and far
# deeper only where it is short.
_MAX_NODES_TIMES_DEPTH = 160_000_000  # takes two seconds
_MAX_NODES_TIMES_PARENTS = 20_000_000  # where the parents of most nodes are asked for
_MIN_DEPTH = 256

MAX_CHAIN = 200  # nodes within nodes that one node is followed through: beyond, it is none of code

_REWRITERS = {"c": blank_macros, "cpp": blank_macros, "kotlin": end_members}
_RECOVERING_LANGUAGES = ("c", "cpp")  # whose grammars lose nothing around an error, but have many
_BRACKETS = (b"()", b"[]", b"{}")
_CLOSED_BY = {pair[:1]: pair[1:] for pair in _BRACKETS}

_READ_BYTES = 1024  # small, for the tree reads its source again for every predicate of a query
_START, _END = attrgetter("start_byte"), attrgetter("end_byte")
_AS_LETTERS = bytes(byte if byte < 0x80 else ord("x") for byte in range(256))
_STARTS_CHAR = bytes(0 if 0x80 <= byte < 0xC0 else 1 for byte in range(256))


@dataclass(frozen=True, slots=True)
class Grammar:
    """Where a language's grammar and queries are found."""

    module: str
    queries: tuple[str, ...]
    entry: str = "language"
    ascii_only: bool = False
    """Its scanner crashes on other characters, so it is shown a letter for each of their bytes."""
    opened: frozenset[str] = frozenset()
    """Types of nodes at the top of a file that only hold what belongs there."""


GRAMMARS = {
    "python": Grammar("tree_sitter_python", ("python",)),
    "javascript": Grammar("tree_sitter_javascript", ("ecmascript", "javascript")),
    "typescript": Grammar("tree_sitter_typescript", ("ecmascript", "typescript"), "language_typescript"),
    "tsx": Grammar("tree_sitter_typescript", ("ecmascript", "typescript", "tsx"), "language_tsx"),
    "go": Grammar("tree_sitter_go", ("go",)),
    "java": Grammar("tree_sitter_java", ("java",)),
    "rust": Grammar("tree_sitter_rust", ("rust",)),
    "c": Grammar("tree_sitter_c", ("c",)),
    "cpp": Grammar("tree_sitter_cpp", ("c", "cpp")),
    "c_sharp": Grammar("tree_sitter_c_sharp", ("c_sharp",)),
    "ruby": Grammar("tree_sitter_ruby", ("ruby",)),
    "php": Grammar("tree_sitter_php", ("php",), "language_php"),
    "kotlin": Grammar("tree_sitter_kotlin", ("kotlin",)),
    "swift": Grammar("tree_sitter_swift", ("swift",)),
    "scala": Grammar("tree_sitter_scala", ("scala",)),
    "bash": Grammar(
        # It looks characters up in the table of ctype.h, which has 256:
        # https://github.com/tree-sitter/tree-sitter-bash/issues/337
        "tree_sitter_bash",
        ("bash",),
        ascii_only=True,
    ),
    "lua": Grammar("tree_sitter_lua", ("lua",)),
    "elixir": Grammar("tree_sitter_elixir", ("elixir",)),
    "haskell": Grammar("tree_sitter_haskell", ("haskell",), opened=frozenset({"imports", "declarations"})),
    "ocaml": Grammar("tree_sitter_ocaml", ("ocaml",), "language_ocaml"),
    "ocaml_interface": Grammar("tree_sitter_ocaml", ("ocaml",), "language_ocaml_interface"),
    "powershell": Grammar("tree_sitter_powershell", ("powershell",), opened=frozenset({"statement_list"})),
    "sql": Grammar("tree_sitter_sql", ("sql",)),
    "zig": Grammar("tree_sitter_zig", ("zig",)),
    "hcl": Grammar("tree_sitter_hcl", ("hcl",), opened=frozenset({"body"})),
    "terraform": Grammar("tree_sitter_hcl", ("hcl",), opened=frozenset({"body"})),
    "dockerfile": Grammar("tree_sitter_containerfile", ("dockerfile",)),
}
"""By the names of `knowledge_pipeline.file_languages`, and `ocaml_interface` for OCaml's `.mli`."""


@dataclass(slots=True)
class NamedParts:
    """The parts of a definition that a pattern captures beside it: `@name`, once or more, and `@body`."""

    names: list[Node] = field(default_factory=list[Node])
    body: Node | None = None


@dataclass(frozen=True, slots=True)
class SyntaxTree:
    """A parsed text: its tree, and what the language's query found in it."""

    text: str
    language: str
    root: Node
    captures: dict[str, list[Node]]
    named_parts: dict[int, NamedParts]  # by the id of a definition's node: what its pattern names of it
    _offsets: Sequence[int] | None  # character offset of every byte; None: they are equal

    def start(self, node: Node) -> int:
        """Character at which a node starts."""
        return node.start_byte if self._offsets is None else self._offsets[node.start_byte]

    def end(self, node: Node) -> int:
        """Character before which a node ends."""
        return node.end_byte if self._offsets is None else self._offsets[node.end_byte]

    def slice(self, node: Node) -> str:
        """A node's text."""
        return self.text[self.start(node) : self.end(node)]

    @property
    def top_nodes(self) -> list[Node]:
        """The nodes at the top of the file."""
        opened = GRAMMARS[self.language].opened
        nested = (node.children if node.type in opened else [node] for node in self.root.children)
        return list(chain.from_iterable(nested))


def choose_grammar(language: str, path: str) -> str:
    """The grammar, of `GRAMMARS`, for a file in a language."""
    return "ocaml_interface" if language == "ocaml" and path.endswith(".mli") else language


def parse(text: str, language: str) -> SyntaxTree | None:
    """The syntax tree of a text in a language of `GRAMMARS`.

    Returns:
        None where no sensible tree can be had: more than half of the text lies loose in
        errors, it is nested far deeper than code is, or takes far more steps than code needs.
    """
    source = text.encode("utf-8", "replace")  # a lone surrogate becomes "?", still one character
    root = parse_root(source, language)
    if root is None or _is_too_deep(root) or not _is_sound(root):
        return None
    matches = _run_language_query(root, language)
    if matches is None:
        return None
    chars: Sequence[int] | None = None
    if len(source) != len(text):  # for every byte and the end: how many characters start before it
        chars = array("L", accumulate(source.translate(_STARTS_CHAR), initial=0))
    return SyntaxTree(text, language, root, *matches, chars)


def _run_language_query(
    root: Node, language: str
) -> tuple[dict[str, list[Node]], dict[int, NamedParts]] | None:
    """What the language's query finds, by capture, in the order of the text; and the parts of definitions.

    By `matches`: `captures` gives no order, and takes quadratic time where predicates fail. None where it
    takes far more time than for code.
    """
    captures: dict[str, list[Node]] = {}
    named_parts: dict[int, NamedParts] = {}
    cursor = QueryCursor(_load_query(language, __package__), match_limit=_limit_depth(root))
    matches = cursor.matches(root)
    if cursor.did_exceed_match_limit:
        return None
    for _, match in matches:
        names, bodies = match.pop("name", []), match.pop("body", [])
        for capture, nodes in match.items():
            captures.setdefault(capture, []).extend(nodes)
            for node in nodes if names and not capture.startswith("_") else ():
                parts = named_parts.setdefault(node.id, NamedParts())  # several matches may name it
                parts.names.extend(name for name in names if name not in parts.names)
                parts.body = parts.body or next(iter(bodies), None)
    for nodes in captures.values():
        nodes.sort(key=lambda node: (node.start_byte, -node.end_byte))
    return captures, named_parts


def run_queries(tree: SyntaxTree, package: str) -> dict[str, list[Node]] | None:
    """What the queries of another package find in a parsed text, by capture, in the order of the text.

    None where they take far more time than for code.

    They lie in its folder `queries`, under the names in `GRAMMARS`, and have no predicates, with
    which `captures` would take quadratic time.
    """
    cursor = QueryCursor(_load_query(tree.language, package), match_limit=_limit_depth(tree.root))
    if _is_too_deep(tree.root, _MAX_NODES_TIMES_PARENTS):
        return None
    captures = cursor.captures(tree.root)
    if cursor.did_exceed_match_limit:
        return None
    for nodes in captures.values():
        nodes.sort(key=_END, reverse=True)  # outer before inner, where both start in one place
        nodes.sort(key=_START)
    return captures


def parse_root(source: bytes, language: str) -> Node | None:
    """The root of a text's tree; None where the parser takes far more steps than code needs.

    It may take minutes all the same: see `parse_guard`. The tree is that of a text of the same length that
    the grammar reads better: without macros of C, and brackets that nothing opens or closes.
    """
    readable = _REWRITERS[language](source) if language in _REWRITERS else source
    root = _parse_bytes(readable, language)
    if readable != source and (root is None or _has_errors_at_changes(source, readable, root)):
        original = _parse_bytes(source, language)
        if root is None or (original is not None and len(_list_errors(original)) < len(_list_errors(root))):
            root, readable = original, source
    if root is None or not root.has_error or language in _RECOVERING_LANGUAGES:
        return root
    return _mend(readable, root, language)


def _mend(source: bytes, root: Node, language: str) -> Node:
    """The tree without what loses the text around an error: stray brackets, and lines that end the parse.

    As it was where too much of the text would be left out: that is no code.
    """
    written, as_written = len(source.translate(None, b" \t\r\n")), root
    loose, widest = _measure_errors(root)
    for _ in range(_MAX_MENDED_LINES):
        is_wide = loose > len(source) * _WIDE_ERROR_SHARE
        trials = [*_iter_mended(source, root, language, widest if is_wide else None)]
        trees = [(text, tree) for text in trials if (tree := _parse_bytes(text, language)) is not None]
        results = [(*_measure_errors(tree), text, tree) for text, tree in trees]
        best = min(results, key=lambda result: result[0], default=None)
        if best is None or best[0] >= loose:
            break
        loose, widest, source, root = best
    left_out = written - len(source.translate(None, b" \t\r\n"))
    return as_written if left_out > _MAX_LEFT_OUT_SHARE * written else root


def _iter_mended(source: bytes, root: Node, language: str, error: Node | None) -> Iterator[bytes]:
    """The text without stray brackets; without the line where an error begins, or where parsing stopped."""
    if any(source.count(pair[:1]) != source.count(pair[1:]) for pair in _BRACKETS):
        yield _blank_stray_brackets(source, root, language)
    if error is None:
        return
    stopped = error.children[-1].end_byte if error.children else error.start_byte
    rest = source[stopped : error.end_byte]
    for at in {error.start_byte, stopped + len(rest) - len(rest.lstrip())}:
        start, end = source.rfind(b"\n", 0, at) + 1, source.find(b"\n", at)
        end = len(source) if end < 0 else end
        if source[start:end].strip():
            yield source[:start] + b" " * (end - start) + source[end:]


def _blank_stray_brackets(source: bytes, root: Node, language: str) -> bytes:
    """The text with spaces for brackets without a partner: a curly one ends all that is open within it."""
    captures = QueryCursor(_load_bracket_query(language)).captures(root)
    opened: list[tuple[bytes, int]] = []
    stray: list[int] = []
    for node in sorted(captures.get("bracket", ()), key=_START):
        for at in range(node.start_byte, node.end_byte):
            if (sign := source[at : at + 1]) in _CLOSED_BY:
                opened.append((_CLOSED_BY[sign], at))
            elif sign in _CLOSED_BY.values():
                while opened and sign == b"}" != opened[-1][0]:
                    stray.append(opened.pop()[1])
                if opened and opened[-1][0] == sign:
                    opened.pop()
                else:
                    stray.append(at)
    mended = bytearray(source)
    for at in [*stray, *(at for closed_by, at in opened if closed_by != b"}")]:
        mended[at : at + 1] = b" "
    return bytes(mended)


@cache
def _load_bracket_query(language: str) -> Query:
    """All signs of a language that end with an opening bracket, or with one that closes."""
    grammar = _load_grammar(language)
    kinds = {
        kind
        for number in range(grammar.node_kind_count)
        if grammar.node_kind_is_visible(number)
        and not grammar.node_kind_is_named(number)
        and (kind := grammar.node_kind_for_id(number) or "").strip("#$%@?<") in set("()[]{}")
    }
    return Query(grammar, f"[{' '.join(json.dumps(kind) for kind in sorted(kinds))}] @bracket")


def _parse_bytes(source: bytes, language: str) -> Node | None:
    if GRAMMARS[language].ascii_only:
        source = source.translate(_AS_LETTERS)
    budget = _MIN_PROGRESS_REPORTS + int(len(source) * _PROGRESS_REPORTS_PER_BYTE)
    blocks = len(source) // _READ_BYTES + 1
    reads = sys.maxsize if language in GRAPH_LANGUAGES else _MIN_READS + blocks * _READS_PER_BLOCK
    deadline_s = time.thread_time() + _MAX_CPU_S

    def give_up(_offset: int, _has_error: bool) -> bool:
        nonlocal budget
        budget -= 1
        is_late = budget % _REPORTS_BETWEEN_CLOCKS == 0 and time.thread_time() > deadline_s
        return budget < 0 or reads < 0 or is_late

    def read(offset: int, _point: object) -> bytes:
        nonlocal reads
        reads -= 1  # goes on where the limit is passed: a source that ends early crashes the parser
        return source[offset : offset + _READ_BYTES]

    parser = Parser(_load_grammar(language))
    try:
        return parser.parse(read, progress_callback=give_up).root_node
    except ValueError:  # "Parsing failed": given up
        return None


def _has_errors_at_changes(source: bytes, readable: bytes, root: Node) -> bool:
    """Whether a quarter of the changed lines begins an error: changing them may have been wrong."""
    if not root.has_error:
        return False
    lines = zip(source.split(b"\n"), readable.split(b"\n"), strict=True)
    changed = {row for row, (before, after) in enumerate(lines) if before != after}
    return 4 * sum(error.start_point.row in changed for error in _list_errors(root)) > len(changed)


def _list_errors(root: Node) -> list[Node]:
    errors, waiting = list[Node](), [root]
    while waiting:
        node = waiting.pop()
        if node.is_error or node.is_missing:
            errors.append(node)
        waiting.extend(child for child in node.children if child.has_error)
    return errors


def _limit_depth(root: Node, max_nodes_times_depth: int = _MAX_NODES_TIMES_DEPTH) -> int:
    return min(max(_MIN_DEPTH, max_nodes_times_depth // root.descendant_count), 0xFFFF)


def _is_too_deep(root: Node, max_nodes_times_depth: int = _MAX_NODES_TIMES_DEPTH) -> bool:
    """Whether nodes lie deeper than the limit, or at least half as deep.

    Between a node in the order of the text and what is half the limit above it stand as many nodes, none of
    them higher: of those that far apart, one shows the depth.
    """
    half = _limit_depth(root, max_nodes_times_depth) // 2
    cursor = root.walk()
    for number in range(0, root.descendant_count, half):
        cursor.goto_descendant(number)
        if cursor.depth >= half:
            return True
    return False


def _is_sound(root: Node) -> bool:
    """Whether most of a tree means something.

    A few errors are normal (macros, templates, new syntax), and an error around a whole
    file may hold sound definitions: what counts is the text that lies loose in errors.
    """
    return _measure_errors(root)[0] <= _MAX_ERROR_SHARE * (root.end_byte - root.start_byte)


def _measure_errors(root: Node) -> tuple[int, Node | None]:
    """How many bytes lie loose in errors, all where one is too wide for queries; and the widest error."""
    loose, widest, waiting = 0, None, [root] if root.has_error else []
    while waiting:
        node = waiting.pop()
        children = node.children
        if node.is_error:
            if len(children) > _MAX_ERROR_CHILDREN:
                return root.end_byte - root.start_byte, node
            kept = (child for child in children if child.child_count or child.type.endswith("comment"))
            size = node.end_byte - node.start_byte
            loose += size - sum(child.end_byte - child.start_byte for child in kept)
            widest = node if widest is None or size > widest.end_byte - widest.start_byte else widest
        waiting.extend(child for child in children if child.has_error)
    return loose, widest


@cache
def _load_grammar(name: str) -> Language:
    grammar = GRAMMARS[name]
    capsule: object = getattr(importlib.import_module(grammar.module), grammar.entry)()
    return Language(capsule)


@cache
def _load_query(name: str, package: str) -> Query:
    folder = resources.files(package) / "queries"
    sources = ((folder / f"{query}.scm").read_text("utf-8") for query in GRAMMARS[name].queries)
    return Query(_load_grammar(name), "\n".join(sources))


def part_of(node: Node | None, part: str | int) -> Node | None:
    """A part of a node, by its field or by its position among the named children."""
    if node is None:
        return None
    if isinstance(part, str):
        return node.child_by_field_name(part)
    children = node.named_children
    return children[part] if -len(children) <= part < len(children) else None


def has_type(node: Node | None, *types: str) -> TypeGuard[Node]:
    """Whether there is a node, of one of some types."""
    return node is not None and node.type in types


def children_of(node: Node | None) -> list[Node]:
    """The named children of a node."""
    return node.named_children if node is not None else []


def children_of_type(node: Node | None, *types: str) -> Iterator[Node]:
    """The named children of some types."""
    return (child for child in children_of(node) if child.type in types)


def first_of_type(node: Node | None, *types: str) -> Node | None:
    """The first named child of some types."""
    return next(children_of_type(node, *types), None)


def has_child(node: Node | None, *types: str) -> bool:
    """Whether a node has a child of some types, keywords and signs included."""
    return node is not None and any(child.type in types for child in node.children)


def iter_ancestors(node: Node) -> Iterator[Node]:
    """The nodes around a node, from within, up to `MAX_CHAIN`; each is looked for from the root."""
    around = node.parent
    for _ in range(MAX_CHAIN):
        if around is None:
            return
        yield around
        around = around.parent


def ancestor_of_type(node: Node | None, *types: str) -> Node | None:
    """The nearest node of some types around a node."""
    ancestors = iter_ancestors(node) if node is not None else ()
    return next((around for around in ancestors if around.type in types), None)

"""The definitions of a file as a tree: what is defined where, in what, and what it extends and imports."""

from __future__ import annotations

import atexit
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import chain

from tree_sitter import Node

from knowledge_pipeline.syntax.grammars import SyntaxTree, parse
from knowledge_pipeline.syntax.parse_guard import ParseGuard

_NAME_FIELDS = ("name", "property", "left", "key", "declarator", "type", "pattern")
_NAME_TYPES = frozenset(
    {"identifier", "name", "simple_identifier", "type_identifier", "variable_declaration"}
)
_IMPLICIT_NAMES = {
    "init_declaration": "init", "deinit_declaration": "deinit", "subscript_declaration": "subscript",
    "secondary_constructor": "constructor", "companion_object": "Companion", "indexer_declaration": "this",
    "given_definition": "given", "extension_definition": "extension",
    "conversion_operator_declaration": "operator", "package_object": "package",
}  # fmt: skip
_BODY_TYPES = frozenset(
    {"class_body", "enum_class_body", "function_body", "field_declaration_list", "block", "getter"}
)
_ANNOTATIONS = frozenset({"annotation", "attribute", "attribute_list", "decorator", "marker_annotation"})
_MAX_ATTRIBUTES = 20
_NOT_OWNERS = frozenset({"prototype", "exports", "module", "this", "window", "self", "globalThis"})
_OWNED_NAMES = frozenset({"dot_index_expression", "method_index_expression"})
_TEST = re.compile(r"(?:TYPED_)?TEST(?:_[FP])?\s*+\(\s*+(\w++)\s*+,\s*+(\w++)\s*+\)\s*+\{")
_GENERICS = re.compile(r"<[^<>]*>|\[[^\[\]]*\]")
_WORDS = re.compile(r"[^\W\d]\w*")


def name_of(tree: SyntaxTree, node: Node) -> tuple[str, str]:
    """The owner and the name of a definition: `("Circle", "area")` for `double Circle::area()`.

    Most grammars say it with a field `name`; the rest is here, or in queries whose patterns capture `@name`.

    The owner is empty unless it is written into the definition itself; the name is
    empty for what has none.
    """
    if (parts := tree.named_parts.get(node.id)) is not None:
        return _join_names(tree, parts.names)
    name_node = _find_name_node(node)
    if name_node is not None and tree.language == "cpp" and (test := _find_test_names(tree, name_node)):
        return test
    if name_node is None:
        before = tree.text[max(0, tree.start(node) - 20) : tree.start(node)].rstrip()
        return "", _IMPLICIT_NAMES.get(node.type, "default" if before.endswith("default") else "")
    text = " ".join(tree.slice(name_node)[:200].split()).strip("\"'`")
    if name_node.type == "computed_property_name":  # [Symbol.iterator]
        return "", text
    if name_node.type == "member_expression":
        # `Cart.prototype.clear` belongs to `Cart`, `exports.total` to nobody
        *owners, name = text.split(".")
        owners = [owner for owner in owners if owner not in _NOT_OWNERS]
        return (owners[-1] if owners else ""), name
    if text.startswith("operator"):
        return "", text
    owner, _, name = _remove_nested(_GENERICS, text).strip().rpartition("::")
    receiver = node.child_by_field_name("receiver") if node.type == "method_declaration" else None
    if not owner and receiver is not None:  # `Server` of Go's `func (s *Server) Listen()`
        words = _WORDS.findall(_remove_nested(_GENERICS, tree.slice(receiver)))
        owner = words[-1] if words else ""
    return owner, name.strip("&*")


def _find_test_names(tree: SyntaxTree, name: Node) -> tuple[str, str] | None:
    """`("StoreTest", "Opens")` of googletest's `TEST_F(StoreTest, Opens) {`; None for other names."""
    if not tree.slice(name).removeprefix("TYPED_").startswith("TEST"):
        return None
    match = _TEST.match(tree.text, tree.start(name))
    return (match[1], match[2]) if match else None


def head_start(tree: SyntaxTree, node: Node) -> int:
    """Character at which a definition starts, its attributes and annotations left off."""
    for child in node.children[:_MAX_ATTRIBUTES]:
        if child.type == "modifiers":
            inner = next((part for part in child.children if part.type not in _ANNOTATIONS), None)
            if inner is not None:
                return tree.start(inner)
        elif child.type not in _ANNOTATIONS:
            return tree.start(child)
    return tree.start(node)


def body_start(tree: SyntaxTree, node: Node) -> int | None:
    """Character at which the body of a definition starts, if it has one."""
    if (parts := tree.named_parts.get(node.id)) is not None and parts.body is not None:
        return tree.start(parts.body)
    body = node.child_by_field_name("body") or node.child_by_field_name("computed_value")
    for key in ("value", "right", "type"):
        inner = None if body else node.child_by_field_name(key)
        body = body or (inner and (inner.child_by_field_name("body") or _find_body_child(inner)))
    body = body or _find_body_child(node)
    return tree.start(body) if body else None


def _join_names(tree: SyntaxTree, names: list[Node]) -> tuple[str, str]:
    """The owner and the name that a pattern captured: `("Session", "add")` for Lua's `Session:add`."""
    texts = (" ".join(tree.slice(name)[:200].split()).strip("\"'`") for name in names)
    name = ".".join(text for text in texts if text)
    if len(names) == 1 and names[0].type in _OWNED_NAMES:
        owner, _, name = name.replace(":", ".").rpartition(".")
        return owner, name
    return "", name


def _find_body_child(node: Node) -> Node | None:
    return next((child for child in node.children if child.type in _BODY_TYPES), None)


def _find_name_node(node: Node) -> Node | None:
    for key in _NAME_FIELDS:
        part = node.child_by_field_name(key)
        if part is not None:
            return _unwrap_declarator(part) if key == "declarator" else part
    if node.type in _IMPLICIT_NAMES:
        return None
    return next((child for child in node.named_children if child.type in _NAME_TYPES), None)


def _unwrap_declarator(node: Node) -> Node:
    """The name inside C's declarators: `*name(void)`, `(&name)[3]`."""
    for _ in range(20):
        inner = node.child_by_field_name("declarator")
        if inner is None and node.type.endswith("_declarator"):
            inner = next(iter(node.named_children), None)
        if inner is None:
            return node
        node = inner
    return node


def _remove_nested(pattern: re.Pattern[str], text: str) -> str:
    """Remove matches, inner before outer."""
    for _ in range(10):
        shorter = pattern.sub("", text)
        if shorter == text:
            break
        text = shorter
    return text


_QUOTED = re.compile(r"""["'<`]([^"'<>`\n]+)["'>`]""")
_GO = re.compile(r"""(?:(?<![\w.])([\w.]++)[ \t]+)?["`]([^"`\n]+)["`]""")
_VERSION = re.compile(r"v\d+$")
_PYTHON_FROM = re.compile(r"from\s+(\S+)\s+import\b(.*)", re.DOTALL)
_BOUND_NAME = re.compile(r"[^\W\d]\w*(?!\w)(?!\s*(?:\.|::|\\|=>|as\b))")
_PATH = re.compile(r"[^\W\d]\w*(?:(?:\.|::|\\)[^\W\d]\w*)*|\\[\w\\]+")
_KEYWORDS = frozenset(
    re.findall(
        r"\w+",
        """
        import from use using as static type typeof pub crate self super require const let
        var namespace default extern open function global func class struct enum protocol
        include define require_once include_once require_relative load source mod in given
        async await
        """,
    )
)
_QUOTED_MODULE_LANGUAGES = frozenset(
    {"javascript", "typescript", "tsx", "c", "cpp", "ruby", "php", "bash", "lua", "zig"}
)
_LUA_SCOPE = re.compile(r"^\s*local\s+")
_BARE_LANGUAGES = frozenset({"elixir", "haskell", "powershell"})
_BARE = re.compile(
    r"""\s*(?:using\s+\w+|[\w.-]+)\s+(?:qualified\s+|-Name\s+)?["']?([^\s"'{(,;]+)""", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class ImportBinding:
    """One imported module and the names by which a file uses it; none where they cannot be told."""

    module: str
    names: frozenset[str]


def parse_import(statement: str, language: str) -> Iterator[ImportBinding]:
    """The modules of one import statement, as they are written there.

    Without a name where the language does not say which ones an import brings (C's
    headers, wildcards, Ruby's and Bash's files).
    """
    if language == "go":
        for alias, path in _GO.findall(statement):
            parts = [part for part in path.split("/") if not _VERSION.match(part)]
            name = parts[-1] if parts else path
            yield ImportBinding(path, frozenset({alias if alias not in ("", "_", ".", "import") else name}))
    elif language == "python" and (match := _PYTHON_FROM.match(statement)):
        yield ImportBinding(match[1], _find_bound_names(match[2]))
    elif language == "python":
        for words in map(str.split, statement.removeprefix("import").split(",")):
            if words:
                name = words[-1] if "as" in words else words[0].split(".")[0]
                yield ImportBinding(words[0], frozenset({name}))
    elif language == "bash":
        yield from (ImportBinding(word.strip("\"'"), frozenset()) for word in statement.split()[1:2])
    elif language in _BARE_LANGUAGES:  # `alias Shop.{Item, Price}`, `import qualified Data.Map as Map`
        if match := _BARE.match(statement):
            names = _find_bound_names(statement[match.start(1) :]) | {match[1].rpartition(".")[2]}
            yield ImportBinding(match[1].rstrip("."), names - {"as", "hiding", "qualified", ""})
    elif language in _QUOTED_MODULE_LANGUAGES and (quoted := _QUOTED.search(statement)):
        clause = _LUA_SCOPE.sub("", statement) if language == "lua" else statement
        yield ImportBinding(quoted[1], _find_bound_names(_QUOTED.sub("", clause)))
    else:
        # `use std::fmt;`, `import java.util.List;`, `using Json = System.Text.Json;`
        clause = statement.split("=", 1)[-1] if re.search(r"\w\s*=\s", statement) else statement
        paths = (path for path in _PATH.findall(clause) if path not in _KEYWORDS)
        if (module := next(paths, None)) is not None:
            yield ImportBinding(module, _find_bound_names(statement))


def _find_bound_names(clause: str) -> frozenset[str]:
    return frozenset(name for name in _BOUND_NAME.findall(clause) if name not in _KEYWORDS)


TYPE_KINDS = frozenset({"class", "interface", "struct", "enum", "trait", "impl", "object", "extension"})
"""Kinds whose functions are methods."""

CALLABLE_KINDS = frozenset({"function", "method", "property"})  # kinds that do something

STATEMENT_KINDS = frozenset({"block", "table", "view", "index", "trigger"})
"""Kinds of languages that declare rather than do: HCL's blocks, what SQL creates."""

_KINDS = (
    *sorted(TYPE_KINDS),
    *sorted(CALLABLE_KINDS),
    *sorted(STATEMENT_KINDS),
    *("stage", "module", "constant", "global", "macro", "type"),
)
_KEYWORD = re.compile(r"\b(interface|enum|struct|extension)\s+(?:class\s+)?$")
_NESTED = re.compile(r"<[^<>]*>|\([^()]*\)|\[[^\[\]]*\]")
_BETWEEN_BASES = re.compile(r"\b(?:extends|implements|with|public|private|protected|virtual)\b|[,+]")
_WORD = re.compile(r"\w+")
_SIGNATURE_END = re.compile(r"(?<![\s{=:;])(?:=>|[\s{=:;])++$")
_MAX_SIGNATURE = 120
_MAX_SCOPE = 20
_MAX_BASES = 20


@dataclass(slots=True, eq=False)
class OutlineDefinition:
    """One named thing that a file defines. Offsets leave its decorators and annotations off."""

    kind: str
    name: str
    start_char: int
    end_char: int
    body_start_char: int | None  # where the body starts; None: a declaration alone
    node: Node
    owner: str = ""  # a type named in the definition itself: Go's receiver, C++'s `Circle::`
    parent: OutlineDefinition | None = None
    bases: list[str] = field(default_factory=list[str])

    @property
    def symbol(self) -> str:
        """The qualified name: "SessionStore.get"."""
        parts = chain.from_iterable((step.owner.replace("::", "."), step.name) for step in self.scope)
        return ".".join(part for part in parts if part)

    @property
    def label(self) -> str:
        """One step of an anchor: "method get", "impl Display for Job"."""
        of = f"{', '.join(self.bases)} for " if self.kind == "impl" and self.bases else ""
        owner = f"{self.owner}." if self.owner else ""
        return f"{self.kind} {of}{owner}{self.name}"

    @property
    def scope(self) -> list[OutlineDefinition]:
        """The definitions around this one and itself, outermost first; the innermost twenty."""
        path: list[OutlineDefinition] = [self]
        ancestor = self.parent
        while ancestor is not None and len(path) < _MAX_SCOPE:
            path.append(ancestor)
            ancestor = ancestor.parent
        return path[::-1]

    @property
    def class_names(self) -> list[str]:
        """The qualified names of the types that this is, or belongs to, outermost first."""
        names = (
            step.symbol if step.kind in TYPE_KINDS else step.owner.replace("::", ".") for step in self.scope
        )
        return [name for name in names if name]

    @property
    def class_name(self) -> str | None:
        """The type that this is, or belongs to."""
        for ancestor in reversed(self.scope):
            if ancestor.kind in TYPE_KINDS:
                return ancestor.name
            if ancestor.owner:
                return ancestor.owner.rpartition("::")[2]
        return None


class Outline:
    """A file's definitions in the order of their starts, outer before inner, and its imports."""

    def __init__(self, tree: SyntaxTree) -> None:
        self.tree = tree
        self.definitions = _nest_definitions(_iter_definitions(tree))
        self._starts = [definition.start_char for definition in self.definitions]
        for node in tree.captures.get("base", ()):
            if definition := self.innermost_definition(tree.start(node)):
                definition.bases = [*definition.bases, *parse_base_names(tree.slice(node))][:_MAX_BASES]
        self._decisions = sorted(map(tree.start, tree.captures.get("decision", ())))
        self.attribute_ids = {node.id for node in tree.captures.get("attribute", ())}
        self.import_starts = {tree.start(node) for node in tree.captures.get("import", ())}
        statements = (tree.slice(node) for node in tree.captures.get("import", ()))
        self.bindings = tuple(
            chain.from_iterable(parse_import(statement, tree.language) for statement in statements)
        )
        self.export_list = frozenset(
            chain.from_iterable(map(self._exported_names, tree.captures.get("export", ())))
        )

    def definitions_within(self, start_char: int, end_char: int) -> list[OutlineDefinition]:
        """The definitions that start within a span."""
        first = bisect_left(self._starts, start_char)
        return self.definitions[first : bisect_left(self._starts, end_char, first)]

    def innermost_definition(self, offset_char: int) -> OutlineDefinition | None:
        """The smallest definition around a character."""
        index = bisect_right(self._starts, offset_char) - 1
        definition = self.definitions[index] if index >= 0 else None
        while definition is not None and definition.end_char <= offset_char:
            definition = definition.parent
        return definition

    def count_decisions(self, start_char: int, end_char: int) -> int:
        """Branches that start within a span."""
        return bisect_left(self._decisions, end_char) - bisect_left(self._decisions, start_char)

    def signature(self, definition: OutlineDefinition) -> str:
        """The head of a definition on one line, without annotations, at most 120 characters."""
        end = definition.body_start_char
        head = self.tree.text[definition.start_char : definition.end_char if end is None else end][:1000]
        if end is None:
            head = head if definition.kind == "stage" else head.split("{", 1)[0]  # FROM image:${TAG}
            head = head.split("\n", 1)[0]
        line = _SIGNATURE_END.sub("", " ".join(head.split()))
        return line if len(line) <= _MAX_SIGNATURE else f"{line[: _MAX_SIGNATURE - 1]}…"

    def _exported_names(self, node: Node) -> list[str]:
        """The names in a list of exports: a string of `__all__`, a key of `module.exports`."""
        if node.type != "object":
            return _WORD.findall(self.tree.slice(node))
        keys = (
            child.child_by_field_name("key") or child.child_by_field_name("name") for child in node.children
        )
        exported = (key or child for key, child in zip(keys, node.children, strict=True) if child.is_named)
        return [self.tree.slice(key) for key in exported]


def open_outline(text: str, language: str) -> Outline | None:
    """The outline of a text in a language of `GRAMMARS`; None where no sensible tree can be had."""
    syntax = parse(text, language) if _get_guard().can_parse(text, language) else None
    return None if syntax is None else Outline(syntax)


@cache
def _get_guard() -> ParseGuard:
    """The guard of this process, for as long as that runs."""
    guard = ParseGuard()
    atexit.register(guard.close)
    return guard


def parse_base_names(clause: str) -> list[str]:
    """The names in a clause that says what a type extends or implements, without their arguments."""
    text = clause.strip()
    text = text[1:-1] if text.startswith("(") and text.endswith(")") else text.lstrip("<: ")
    text = _remove_nested(_NESTED, text)
    words = (part.split() for part in _BETWEEN_BASES.split(text) if "=" not in part)
    return [part[0] for part in words if part and part[0][0] not in "'?*"]


def _iter_definitions(tree: SyntaxTree) -> Iterator[OutlineDefinition]:
    for capture in _KINDS:
        for node in tree.captures.get(capture, ()):
            kind, (owner, name) = capture, name_of(tree, node)
            if not name:
                continue
            name_node = node.child_by_field_name("name") if kind == "class" else None
            if (
                name_node is not None
            ):  # Swift and Kotlin call interfaces, enums and structs class declarations
                keyword = _KEYWORD.search(tree.text[tree.start(node) : tree.start(name_node)])
                kind = keyword[1] if keyword else kind
            start_char, end_char, body_char = head_start(tree, node), tree.end(node), body_start(tree, node)
            yield OutlineDefinition(kind, name, start_char, end_char, body_char, node, owner)


def _nest_definitions(definitions: Iterator[OutlineDefinition]) -> list[OutlineDefinition]:
    """Sort definitions and put each into the one around it, its parent."""
    kept: list[OutlineDefinition] = []
    around: list[OutlineDefinition] = []
    for definition in sorted(definitions, key=lambda one: (one.start_char, -one.end_char)):
        while around and around[-1].end_char <= definition.start_char:
            around.pop()
        parent = around[-1] if around else None
        if parent is not None:
            # a node captured twice, or `typedef struct list {…} list_t`: both name one thing
            is_same = (parent.start_char, parent.end_char) == (definition.start_char, definition.end_char)
            is_tag = parent.node.type == "type_definition"
            is_same |= is_tag and parent.body_start_char == definition.body_start_char
            if is_same or _is_local(parent, definition):
                continue
        definition.kind = "constant" if definition.kind == "global" else definition.kind
        definition.parent = parent
        in_type = definition.owner or (parent is not None and parent.kind in TYPE_KINDS)
        if definition.kind == "function" and in_type:
            definition.kind = "method"
        kept.append(definition)
        around.append(definition)
    return kept


def _is_local(parent: OutlineDefinition, definition: OutlineDefinition) -> bool:
    """Whether a variable cannot be seen outside of what it is in."""
    if definition.kind == "block":
        return parent.kind == "block"  # a setting of the outer one
    in_function = parent.kind in CALLABLE_KINDS and definition.kind in ("constant", "global")
    return in_function or (parent.kind in TYPE_KINDS and definition.kind == "global")

"""What Rust's declarations say: modules, imports, types of fields, parameters, variables and results.

Source: https://doc.rust-lang.org/reference/
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from knowledge_pipeline.code_graph.access_paths import head_of
from knowledge_pipeline.code_graph.facts import Import
from knowledge_pipeline.code_graph.facts_builder import Captures, Extraction, Reading
from knowledge_pipeline.code_graph.languages.declared_types import (
    Values,
    children,
    declare,
    elements,
    promised,
)
from knowledge_pipeline.code_graph.languages.rust.imports import imported, module
from knowledge_pipeline.code_graph.languages.rust.patterns import matched
from knowledge_pipeline.code_graph.languages.rust.values import EXPRESSIONS, TYPES
from knowledge_pipeline.code_graph.languages.visibility import not_pub
from knowledge_pipeline.code_graph.languages.words import words
from knowledge_pipeline.syntax.outline import Definition

BUILTINS = words(
    """
    Some None Ok Err Option Result Vec String Box Clone Copy Send Sync Sized Drop Fn FnMut FnOnce Iterator
    IntoIterator Extend DoubleEndedIterator ExactSizeIterator Default Eq PartialEq Ord PartialOrd AsRef
    AsMut Into From TryFrom TryInto ToOwned ToString FromIterator drop true false str u8 u16 u32 u64 u128
    usize i8 i16 i32 i64 i128 isize f32 f64 bool char println print eprintln eprint format vec panic assert
    assert_eq assert_ne debug_assert debug_assert_eq debug_assert_ne write writeln todo unimplemented
    unreachable matches include_str include_bytes include env option_env concat stringify line file column
    cfg compile_error dbg format_args module_path thread_local try Debug Hash
    """
)
_WORD = re.compile(r"[^\W\d]\w*")
_HANDS_OUT = words(
    """
    map for_each filter filter_map flat_map any all find position take_while skip_while inspect and_then
    is_some_and map_or map_or_else retain max_by_key min_by_key sort_by_key
    """
)


def qualified(each: Definition) -> str:
    """Names of the definitions around; an `impl` goes by the last name of its type."""
    return ".".join(_plain(one) for one in each.scope)


def _plain(each: Definition) -> str:
    if each.kind != "impl":
        return each.name
    found = _WORD.findall(each.name)
    return found[-1] if found else "impl"


def _impl(reading: Reading, node: Node) -> None:
    """`impl Trait for Store`: within it, `Self` is `Store`, and `self` one of them."""
    kind, trait = node.child_by_field_name("type"), node.child_by_field_name("trait")
    path, scope = reading.writer.path(kind), reading.scope(node)
    for each in _functions(node):
        if path:
            inner = reading.scope(each)
            reading.bind(inner, "Self", path)
            reading.bind(inner, "self", f"{path}()", declared=True)
    if trait is not None:
        known = path == scope.rpartition(".")[2] and scope in reading.types
        use, of = ("implements", scope) if known else ("references", "")
        reading.use(use, reading.writer.path(trait), trait, of)
        _skip_head(reading, trait)


def _skip_head(reading: Reading, node: Node) -> None:
    reading.skipped.add(node.start_byte)


def _functions(node: Node) -> Iterator[Node]:
    yield from children(node.child_by_field_name("body"), "function_item", "function_signature_item")


def _trait(reading: Reading, node: Node) -> None:
    scope = reading.scope(node)
    for each in _functions(node):
        reading.bind(reading.scope(each), "Self", "@class")
        reading.bind(reading.scope(each), "self", "@self")
    bounds = node.child_by_field_name("bounds")
    for each in bounds.named_children if bounds is not None else ():
        if each.type != "lifetime":
            reading.use("extends", reading.writer.path(each), each, scope)
            _skip_head(reading, each)


def _promised(reading: Reading, node: Node | None) -> Values:
    return promised(TYPES, reading.writer, node)


def _function(reading: Reading, node: Node) -> None:
    scope = reading.scope(node)
    for suffix, value in _promised(reading, node.child_by_field_name("return_type")):
        reading.bind(scope, "@()" + suffix, value, declared=True)


def _bound(reading: Reading, node: Node) -> None:
    """`T: Store` stands for a `Store`."""
    name = node.child_by_field_name("name") or node.child_by_field_name("left")
    bounds = node.child_by_field_name("bounds")
    if name is None or name.type != "type_identifier":
        return
    paths = [reading.writer.path(each) for each in (bounds.named_children if bounds is not None else ())]
    for path in [path for path in paths if path and path != reading.text(name)] or [""]:
        reading.bind(reading.scope(node), reading.text(name), path)


def _field(reading: Reading, node: Node) -> None:
    scope, name = reading.scope(node), node.child_by_field_name("name")
    if scope not in reading.types or name is None:
        return
    around = node.parent.parent if node.parent is not None else None
    if around is not None and around.type == "enum_variant":
        return
    reading.define(f"{scope}.{reading.text(name)}", "variable", node)
    declare(
        reading, scope, reading.text(name), _promised(reading, node.child_by_field_name("type")), local=False
    )


def _variant(reading: Reading, node: Node) -> None:
    scope, name = reading.scope(node), node.child_by_field_name("name")
    if scope in reading.types and name is not None:
        reading.define(f"{scope}.{reading.text(name)}", "variable", node)
        reading.bind(scope, reading.text(name), "@class()", declared=True)


def _constant(reading: Reading, node: Node) -> None:
    name, kind = node.child_by_field_name("name"), node.child_by_field_name("type")
    around = reading.scope(node)
    if name is not None:
        scope = around.rpartition(".")[0] if around.rpartition(".")[2] == reading.text(name) else around
        declare(reading, scope, reading.text(name), _promised(reading, kind), local=False)


def _alias(reading: Reading, node: Node) -> None:
    name, kind = node.child_by_field_name("name"), node.child_by_field_name("type")
    scope = reading.scope(node)
    if name is None:
        return
    for suffix, value in _promised(reading, kind):
        if not suffix and head_of(value) != reading.text(name):
            reading.bind(scope.rpartition(".")[0], reading.text(name), value.removesuffix("()"))


def _parameter(reading: Reading, node: Node) -> None:
    values = _promised(reading, node.child_by_field_name("type"))
    around = node.parent.parent if node.parent is not None else None
    if around is not None and around.type != "function_type":
        matched(reading, node.child_by_field_name("pattern"), values, declared=True)


def _closure(reading: Reading, node: Node) -> None:
    given = node.child_by_field_name("parameters")
    for each in given.named_children if given is not None else ():
        if each.type != "parameter":
            matched(reading, each, _given(reading, node))


def _given(reading: Reading, node: Node) -> Values:
    """What an iterator hands to a closure: one of its elements."""
    call = node.parent.parent if node.parent is not None else None
    called = call.child_by_field_name("function") if call is not None else None
    if called is None or called.type != "field_expression":
        return []
    name, of = called.child_by_field_name("field"), reading.writer.path(called.child_by_field_name("value"))
    return [("", f"{of}[]")] if of and name is not None and reading.text(name) in _HANDS_OUT else []


def _let(reading: Reading, node: Node) -> None:
    kind, value = node.child_by_field_name("type"), node.child_by_field_name("value")
    pattern = node.child_by_field_name("pattern")
    if kind is not None:
        matched(reading, pattern, _promised(reading, kind), declared=True)
    else:
        matched(reading, pattern, reading.writer.values(value))


def _loop(reading: Reading, node: Node) -> None:
    held = elements(reading.writer.values(node.child_by_field_name("value")))
    matched(reading, node.child_by_field_name("pattern"), held)


def _match(reading: Reading, node: Node) -> None:
    values = reading.writer.values(node.child_by_field_name("value"))
    for arm in children(node.child_by_field_name("body"), "match_arm"):
        matched(reading, arm.child_by_field_name("pattern"), values)


def _literal(reading: Reading, node: Node) -> None:
    """`Store { rows }` makes a `Store`, and names its fields."""
    path = reading.writer.path(node.child_by_field_name("name"))
    if not path:
        return
    for each in children(node.child_by_field_name("body"), "field_initializer"):
        field = each.child_by_field_name("field")
        if field is not None:
            reading.use("references", f"{path}().{reading.text(field)}", each)


def _macro(reading: Reading, node: Node) -> None:
    name = node.child_by_field_name("macro")
    if name is not None:
        reading.skip(name)
        reading.use("references", reading.writer.path(name), name)


def _tokens(reading: Reading, node: Node) -> None:
    """Calls within a macro's arguments, which are read as mere tokens."""
    path, last = "", node
    for each in node.children:
        text = reading.text(each) if each.type in ("identifier", "self", "super", "crate") else ""
        if text and (not path or path.endswith(".")):
            path, last = f"{path}{text}", each
        elif text:
            path, last = text, each
        elif each.type in (".", "::") and path:
            path += "."
        elif each.type == "token_tree" and path and not path.endswith(".") and each.children[0].type == "(":
            reading.use("calls", path, last)
            path = f"{path}()" if len(path) < 100 else ""
        else:
            path = ""


def _crates(reading: Reading, captures: Captures) -> None:
    """`serde_json::from_str()` takes from a crate that no `use` names."""
    if any(each.name == "*" for each in reading.imports):
        return
    known = {each.local for each in reading.imports} | set(map(reading.name, reading.outline.definitions))
    for node in captures.get("crate", ()):
        name = reading.text(node)
        if name not in known and name[:1].islower():
            known.add(name)
            reading.imports.append(Import(name, "", name, node.start_point.row + 1))


EXTRACTION = Extraction(
    private=not_pub,
    expressions=EXPRESSIONS,
    handlers={
        "import": imported,
        "module": module,
        "impl": _impl,
        "trait": _trait,
        "function": _function,
        "bound": _bound,
        "field": _field,
        "variant": _variant,
        "constant": _constant,
        "alias": _alias,
        "parameter": _parameter,
        "closure": _closure,
        "let": _let,
        "loop": _loop,
        "match": _match,
        "literal": _literal,
        "macro": _macro,
        "tokens": _tokens,
    },
    builtins=BUILTINS,
    hides_siblings=True,
    qualified=qualified,
    parts=frozenset({"impl"}),
    finish=_crates,
)

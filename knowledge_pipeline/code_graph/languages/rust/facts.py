"""What Rust's declarations say: modules, imports, types of fields, parameters, variables and results.

Source: https://doc.rust-lang.org/reference/
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from knowledge_pipeline.code_graph.access_paths import first_segment
from knowledge_pipeline.code_graph.facts import Import
from knowledge_pipeline.code_graph.facts_builder import Captures, ExtractionRules, FactsBuilder
from knowledge_pipeline.code_graph.languages.rust.imports import read_import, read_module
from knowledge_pipeline.code_graph.languages.rust.patterns import bind_pattern
from knowledge_pipeline.code_graph.languages.rust.values import EXPRESSIONS
from knowledge_pipeline.code_graph.languages.visibility import lacks_pub
from knowledge_pipeline.code_graph.languages.words import split_words
from knowledge_pipeline.code_graph.values import Values, element_values
from knowledge_pipeline.syntax.nodes import children_of, children_of_type, part_of
from knowledge_pipeline.syntax.outline import OutlineDefinition

BUILTINS = split_words(
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
_CALLBACK_METHODS = split_words(
    """
    map for_each filter filter_map flat_map any all find position take_while skip_while inspect and_then
    is_some_and map_or map_or_else retain max_by_key min_by_key sort_by_key
    """
)


def qualify(definition: OutlineDefinition) -> str:
    """Names of the definitions around; an `impl` goes by the last name of its type."""
    return ".".join(_simple_name(one) for one in definition.scope)


def _simple_name(definition: OutlineDefinition) -> str:
    if definition.kind != "impl":
        return definition.name
    found = _WORD.findall(definition.name)
    return found[-1] if found else "impl"


def _read_impl(builder: FactsBuilder, node: Node) -> None:
    """`impl Trait for Store`: within it, `Self` is `Store`, and `self` one of them."""
    kind, trait = part_of(node, "type"), part_of(node, "trait")
    path, scope = builder.writer.path(kind), builder.scope(node)
    for each in _iter_functions(node):
        if path:
            inner = builder.scope(each)
            builder.bind(inner, "Self", path)
            builder.bind(inner, "self", f"{path}()", declared=True)
    if trait is not None:
        known = path == scope.rpartition(".")[2] and scope in builder.type_names
        use, of = ("implements", scope) if known else ("references", "")
        builder.add_use(use, builder.writer.path(trait), trait, of)
        builder.skip_reference(trait)


def _iter_functions(node: Node) -> Iterator[Node]:
    yield from children_of_type(part_of(node, "body"), "function_item", "function_signature_item")


def _read_trait(builder: FactsBuilder, node: Node) -> None:
    scope = builder.scope(node)
    for each in _iter_functions(node):
        builder.bind(builder.scope(each), "Self", "@class")
        builder.bind(builder.scope(each), "self", "@self")
    for each in children_of(part_of(node, "bounds")):
        if each.type != "lifetime":
            builder.add_use("extends", builder.writer.path(each), each, scope)
            builder.skip_reference(each)


def _read_bound(builder: FactsBuilder, node: Node) -> None:
    """`T: Store` stands for a `Store`."""
    name = part_of(node, "name") or part_of(node, "left")
    if name is None or name.type != "type_identifier":
        return
    paths = [builder.writer.path(each) for each in children_of(part_of(node, "bounds"))]
    for path in [path for path in paths if path and path != builder.text(name)] or [""]:
        builder.bind(builder.scope(node), builder.text(name), path)


def _read_field(builder: FactsBuilder, node: Node) -> None:
    scope, name = builder.scope(node), part_of(node, "name")
    if scope not in builder.type_names or name is None:
        return
    around = node.parent.parent if node.parent is not None else None
    if around is not None and around.type == "enum_variant":
        return
    builder.add_definition(f"{scope}.{builder.text(name)}", "variable", node)
    values = builder.values_of_type(part_of(node, "type"))
    builder.bind_declared(scope, builder.text(name), values, local=False)


def _read_constant(builder: FactsBuilder, node: Node) -> None:
    name, kind = part_of(node, "name"), part_of(node, "type")
    around = builder.scope(node)
    if name is not None:
        scope = around.rpartition(".")[0] if around.rpartition(".")[2] == builder.text(name) else around
        builder.bind_declared(scope, builder.text(name), builder.values_of_type(kind), local=False)


def _read_alias(builder: FactsBuilder, node: Node) -> None:
    name, kind = part_of(node, "name"), part_of(node, "type")
    for suffix, value in builder.values_of_type(kind):
        if not suffix and first_segment(value) != builder.text(name):
            scope = builder.scope(node).rpartition(".")[0]
            builder.bind(scope, builder.text(name), value.removesuffix("()"))


def _read_parameter(builder: FactsBuilder, node: Node) -> None:
    values = builder.values_of_type(part_of(node, "type"))
    around = node.parent.parent if node.parent is not None else None
    if around is not None and around.type != "function_type":
        bind_pattern(builder, part_of(node, "pattern"), values, declared=True)


def _read_closure(builder: FactsBuilder, node: Node) -> None:
    called = part_of(node.parent.parent, "function") if node.parent is not None else None
    handed: Values = []
    if called is not None and called.type == "field_expression":
        owner, method = part_of(called, "value"), part_of(called, "field")
        handed = builder.writer.handed_values(owner, method, _CALLBACK_METHODS)
    for each in children_of(part_of(node, "parameters")):
        if each.type != "parameter":
            bind_pattern(builder, each, handed)


def _read_let(builder: FactsBuilder, node: Node) -> None:
    kind, pattern = part_of(node, "type"), part_of(node, "pattern")
    given = (
        builder.values_of_type(kind) if kind is not None else builder.writer.values(part_of(node, "value"))
    )
    bind_pattern(builder, pattern, given, declared=kind is not None)


def _read_loop(builder: FactsBuilder, node: Node) -> None:
    held = element_values(builder.writer.values(part_of(node, "value")))
    bind_pattern(builder, part_of(node, "pattern"), held)


def _read_match(builder: FactsBuilder, node: Node) -> None:
    values = builder.writer.values(part_of(node, "value"))
    for arm in children_of_type(part_of(node, "body"), "match_arm"):
        bind_pattern(builder, part_of(arm, "pattern"), values)


def _read_struct_literal(builder: FactsBuilder, node: Node) -> None:
    """`Store { rows }` makes a `Store`, and names its fields."""
    path = builder.writer.path(part_of(node, "name"))
    if not path:
        return
    for each in children_of_type(part_of(node, "body"), "field_initializer"):
        field = part_of(each, "field")
        if field is not None:
            builder.add_use("references", f"{path}().{builder.text(field)}", each)


def _read_macro(builder: FactsBuilder, node: Node) -> None:
    name = part_of(node, "macro")
    if name is not None:
        builder.skip_reference(name)
        builder.add_use("references", builder.writer.path(name), name)


def _read_macro_tokens(builder: FactsBuilder, node: Node) -> None:
    """Calls within a macro's arguments, which are read as mere tokens."""
    path, last = "", node
    for each in node.children:
        text = builder.text(each) if each.type in ("identifier", "self", "super", "crate") else ""
        if text and (not path or path.endswith(".")):
            path, last = f"{path}{text}", each
        elif text:
            path, last = text, each
        elif each.type in (".", "::") and path:
            path += "."
        elif each.type == "token_tree" and path and not path.endswith(".") and each.children[0].type == "(":
            builder.add_use("calls", path, last)
            path = f"{path}()" if len(path) < 100 else ""
        else:
            path = ""


def _add_crate_imports(builder: FactsBuilder, captures: Captures) -> None:
    """`serde_json::from_str()` takes from a crate that no `use` names."""
    if any(each.name == "*" for each in builder.imports):
        return
    known = {each.local for each in builder.imports} | set(map(builder.name, builder.outline.definitions))
    for node in captures.get("crate", ()):
        name = builder.text(node)
        if name not in known and name[:1].islower():
            known.add(name)
            builder.imports.append(Import(name, "", name, node.start_point.row + 1))


EXTRACTION = ExtractionRules(
    is_private=lacks_pub, expressions=EXPRESSIONS,
    handlers={
        "import": read_import, "module": read_module, "impl": _read_impl, "trait": _read_trait,
        "function": lambda builder, node: builder.bind_result(
            builder.scope(node), part_of(node, "return_type")
        ),
        "bound": _read_bound, "field": _read_field,
        "variant": lambda builder, node: builder.add_enum_constant(node, part_of(node, "name")),
        "constant": _read_constant, "alias": _read_alias, "parameter": _read_parameter,
        "closure": _read_closure, "let": _read_let, "loop": _read_loop, "match": _read_match,
        "literal": _read_struct_literal, "macro": _read_macro, "tokens": _read_macro_tokens,
    },
    builtins=BUILTINS, sees_sibling_names=True, qualify=qualify, type_part_kinds=frozenset({"impl"}),
    finish=_add_crate_imports,
)  # fmt: skip

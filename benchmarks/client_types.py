"""Writes the types of the client's responses from the contract; `make docs` pastes them into the client."""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import Field, fields, is_dataclass
from typing import Any

from knowledge_pipeline.contract.base import QueryResponse
from knowledge_pipeline.contract.operation import ModelCallResponse, PushResponse, StatusResponse
from knowledge_pipeline.contract.responses import (
    ContextResponse,
    GraphResponse,
    RelationsResponse,
    SearchResponse,
    TraceResponse,
)

ROOTS = (
    QueryResponse,
    SearchResponse,
    TraceResponse,
    RelationsResponse,
    ContextResponse,
    GraphResponse,
    StatusResponse,
    ModelCallResponse,
    PushResponse,
)
"""What the methods of the client return."""

_JSON_TYPES = {"Mapping": "dict", "datetime": "str", "Metadata": "dict[str, Any]"}
_MAX_LINE_CHARS = 110
_INDENT = "\n    "
_CLIENTS_OWN = (
    "    problem: NotRequired[str]",
    '    """Why nothing could be answered, for a client whose errors give empty responses."""',
)


def write_types() -> str:
    """A `TypedDict` for each response and each record in it, what others refer to first."""
    return "\n\n".join(_write_type(cls) for cls in _list_in_order())


def _list_in_order() -> list[type[Any]]:
    ordered: dict[type[Any], None] = {}

    def add(cls: type[Any]) -> None:
        if cls in ordered:
            return
        for inner in (cls.__base__, *(part for each in _own_fields(cls) for part in _records_in(cls, each))):
            if is_dataclass(inner):
                add(inner)
        ordered[cls] = None

    for cls in ROOTS:
        add(cls)
    return list(ordered)


def _own_fields(cls: type[Any]) -> list[Field[Any]]:
    """The fields that JSON has and the base has not."""
    inherited = {each.name for each in fields(cls.__base__)} if is_dataclass(cls.__base__) else set[str]()
    return [each for each in fields(cls) if each.name not in inherited and "exclude" not in each.metadata]


def _records_in(cls: type[Any], field: Field[Any]) -> Iterator[type[Any]]:
    for node in ast.walk(ast.parse(str(field.type))):
        if isinstance(node, ast.Name) and is_dataclass(record := _look_up(cls, node.id)):
            yield record  # pyright: ignore[reportReturnType]  # a class, not one of its objects


def _look_up(cls: type[Any], name: str) -> Any:
    return vars(sys.modules[cls.__module__]).get(name)


def _write_type(cls: type[Any]) -> str:
    base = f"{cls.__base__.__name__}Dict" if is_dataclass(cls.__base__) else "TypedDict"
    doc = inspect.cleandoc(cls.__doc__ or "")  # from Python 3.13 on, `__doc__` is without indents
    about = textwrap.indent(doc, " " * 4).strip()
    ending = _INDENT if "\n" in about else ""
    lines = [f"class {cls.__name__}Dict({base}):", f'    """{about}{ending}"""', ""]
    for field in _own_fields(cls):
        lines.append(f"    {field.name}: {_write_annotation(cls, field)}")
        if description := field.metadata.get("description"):
            wrapped = textwrap.wrap(f'"""{description}"""', _MAX_LINE_CHARS - 4, break_on_hyphens=False)
            lines += [f"    {line}" for line in wrapped]
    if cls is QueryResponse:
        lines += _CLIENTS_OWN
    return "\n".join([*lines, ""])


def _write_annotation(cls: type[Any], field: Field[Any]) -> str:
    text = str(field.type)
    if "omit_none" in field.metadata:
        text = f"NotRequired[{text.removesuffix(' | None')}]"
    return ast.unparse(_JsonTypes(cls).visit(ast.parse(text, mode="eval"))).replace("'", '"')


class _JsonTypes(ast.NodeTransformer):
    """Rewrites a field's annotation to what JSON has in its place."""

    def __init__(self, cls: type[Any]) -> None:
        self._cls = cls

    def visit_Name(self, node: ast.Name) -> ast.Name:
        if is_dataclass(_look_up(self._cls, node.id)):
            return ast.Name(f"{node.id}Dict")
        return ast.Name(_JSON_TYPES.get(node.id, node.id))

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        if isinstance(node.value, ast.Name) and node.value.id == "Literal":
            return node
        self.generic_visit(node)
        if (
            isinstance(node.value, ast.Name)
            and node.value.id == "tuple"
            and isinstance(node.slice, ast.Tuple)
        ):
            return ast.Subscript(ast.Name("list"), node.slice.elts[0])
        return node

"""Shell scripts: what they say, and how their names lead to definitions.

Source: https://www.gnu.org/software/bash/manual/bash.html
"""

from __future__ import annotations

import re

from tree_sitter import Node

from knowledge_pipeline.code_graph.facts import Import
from knowledge_pipeline.code_graph.facts_builder import ExpressionSyntax, ExtractionRules, FactsBuilder
from knowledge_pipeline.code_graph.languages.base import Language, load_words
from knowledge_pipeline.code_graph.project import Layout, join_path
from knowledge_pipeline.syntax.grammars import part_of

_WORDS = load_words("bash")

BUILTINS = _WORDS["builtins"]
_SOURCE_ARGUMENT = re.compile(r"([\w.+-]+(?:/[\w.+-]+)*)[\"']?$")
_NAME = re.compile(r"[\w:-]+")


def _read_command(builder: FactsBuilder, node: Node) -> None:
    """A command may be a function; `source` names a file, of which what is not computed is kept."""
    name = part_of(node, "name")
    text = builder.text(name)
    if text in ("source", "."):
        argument = part_of(node, "argument")
        match = _SOURCE_ARGUMENT.search(builder.text(argument)[-200:]) if argument is not None else None
        if match:
            builder.imports.append(Import(match[1], "*", "*", node.start_point.row + 1, "", True))
    elif name is not None and _NAME.fullmatch(text):
        builder.add_use("calls", text, name)


def _read_variable(builder: FactsBuilder, node: Node) -> None:
    """What is set outside of functions is a definition."""
    name, scope = part_of(node, "name"), builder.scope(node)
    around = node.parent
    if name is None or not _NAME.fullmatch(builder.text(name)):
        return
    if (
        around is not None
        and around.type == "declaration_command"
        and builder.text(around).startswith("local")
    ):
        builder.local_variables.add((scope, builder.text(name)))
    elif not scope:
        builder.add_definition(builder.text(name), "variable", node)


def _read_expansion(builder: FactsBuilder, node: Node) -> None:
    if (builder.scope(node), builder.text(node)) not in builder.local_variables:
        builder.add_use("references", builder.text(node), node)


EXTRACTION = ExtractionRules(
    expressions=ExpressionSyntax(frozenset({"word", "variable_name"}), {}, {}, {}),
    handlers={"variable": _read_variable, "command": _read_command, "expanded": _read_expansion},
    builtins=BUILTINS,
)


class Bash(Language):
    """Bash, and shells like it. What no script defines is a program outside of the source."""

    name = "bash"

    def is_star_exported(self, name: str) -> bool:
        """A sourced script gives all that it defines."""
        return True

    def find_modules(self, name: str, path: str, layout: Layout) -> tuple[str, ...]:
        """The script beside another one, from the source's root, or the only one with that end."""
        folder = path.rpartition("/")[0]
        plain = "/".join(part for part in name.split("/") if part not in ("", ".", ".."))
        for candidate in (join_path(folder, name), plain):
            if candidate in layout.paths:
                return (candidate,)
        files = layout.files_named(plain.rpartition("/")[2])
        files = tuple(file for file in files if file.endswith(f"/{plain}"))
        return files if len(files) == 1 else ()

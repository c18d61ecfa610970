"""What shell scripts say: files that are sourced, functions that are called, variables.

Source: https://www.gnu.org/software/bash/manual/bash.html
"""

from __future__ import annotations

import re

from tree_sitter import Node

from knowledge_pipeline.code_graph.expression_paths import ExpressionSyntax
from knowledge_pipeline.code_graph.facts import Import
from knowledge_pipeline.code_graph.facts_builder import ExtractionRules, FactsBuilder
from knowledge_pipeline.code_graph.languages.words import split_words
from knowledge_pipeline.syntax.nodes import part_of

BUILTINS = split_words(
    """
    echo printf cd pwd test true false exit return export set unset shift read eval exec trap wait local
    declare typeset readonly let getopts type command builtin hash ulimit umask alias kill jobs : [ break
    continue pushd popd shopt cat cp mv rm mkdir rmdir ls ln chmod chown touch grep sed awk cut sort uniq
    head tail tr wc tee xargs find basename dirname readlink realpath mktemp date sleep env which id uname
    diff cmp tar gzip seq expr du df ps HOME PATH PWD USER IFS OSTYPE RANDOM BASH_SOURCE FUNCNAME LINENO
    """
)
_SOURCE_ARGUMENT = re.compile(r"([\w.+-]+(?:/[\w.+-]+)*)[\"']?$")
_NAME = re.compile(r"[\w:-]+")


def _read_command(builder: FactsBuilder, node: Node) -> None:
    """A command may be a function; `source` names a file, of which what is not computed is kept."""
    name = part_of(node, "name")
    text = builder.text(name)
    if text in ("source", "."):
        given = part_of(node, "argument")
        found = _SOURCE_ARGUMENT.search(builder.text(given)[-200:]) if given is not None else None
        if found:
            builder.imports.append(Import(found[1], "*", "*", node.start_point.row + 1, "", True))
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

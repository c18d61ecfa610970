"""What shell scripts say: files that are sourced, functions that are called, variables.

Source: https://www.gnu.org/software/bash/manual/bash.html
"""

from __future__ import annotations

import re

from tree_sitter import Node

from knowledge_pipeline.code_graph.expression_paths import Expressions
from knowledge_pipeline.code_graph.facts import Import
from knowledge_pipeline.code_graph.facts_builder import Extraction, Reading
from knowledge_pipeline.code_graph.languages.words import words

BUILTINS = words(
    """
    echo printf cd pwd test true false exit return export set unset shift read eval exec trap wait local
    declare typeset readonly let getopts type command builtin hash ulimit umask alias kill jobs : [ break
    continue pushd popd shopt cat cp mv rm mkdir rmdir ls ln chmod chown touch grep sed awk cut sort uniq
    head tail tr wc tee xargs find basename dirname readlink realpath mktemp date sleep env which id uname
    diff cmp tar gzip seq expr du df ps HOME PATH PWD USER IFS OSTYPE RANDOM BASH_SOURCE FUNCNAME LINENO
    """
)
_SOURCED = re.compile(r"([\w.+-]+(?:/[\w.+-]+)*)[\"']?$")
_NAME = re.compile(r"[\w:-]+")


def _command(reading: Reading, node: Node) -> None:
    """A command may be a function; `source` names a file, of which what is not computed is kept."""
    name = node.child_by_field_name("name")
    text = reading.text(name) if name is not None else ""
    if text in ("source", "."):
        given = node.child_by_field_name("argument")
        found = _SOURCED.search(reading.text(given)[-200:]) if given is not None else None
        if found:
            reading.imports.append(Import(found[1], "*", "*", node.start_point.row + 1, "", True))
    elif name is not None and _NAME.fullmatch(text):
        reading.use("calls", text, name)


def _variable(reading: Reading, node: Node) -> None:
    """What is set outside of functions is a definition."""
    name, scope = node.child_by_field_name("name"), reading.scope(node)
    around = node.parent
    if name is None or not _NAME.fullmatch(reading.text(name)):
        return
    if (
        around is not None
        and around.type == "declaration_command"
        and reading.text(around).startswith("local")
    ):
        reading.locals.add((scope, reading.text(name)))
    elif not scope:
        reading.define(reading.text(name), "variable", node)


def _expanded(reading: Reading, node: Node) -> None:
    if (reading.scope(node), reading.text(node)) not in reading.locals:
        reading.use("references", reading.text(node), node)


EXTRACTION = Extraction(
    expressions=Expressions(frozenset({"word", "variable_name"}), {}, {}, {}),
    handlers={"variable": _variable, "command": _command, "expanded": _expanded},
    builtins=BUILTINS,
)

"""Shell scripts: what they say, and how their names lead to definitions.

Source: https://www.gnu.org/software/bash/manual/bash.html
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tree_sitter import Node

from knowledge_pipeline.code_graph.facts_builder import ExpressionSyntax, FactsBuilder, Handler
from knowledge_pipeline.code_graph.languages.base import Language, load_words
from knowledge_pipeline.code_graph.project import Layout, join_path
from knowledge_pipeline.syntax.grammars import part_of
from knowledge_pipeline.syntax.outline import Outline

_WORDS = load_words("bash")

_SOURCE_ARGUMENT = re.compile(r"([\w.+-]+(?:/[\w.+-]+)*)[\"']?$")
_VARIABLE = re.compile(r"\$\{?(\w+)\}?(?=/|$)")
_OWN_PATH = re.compile(r"\$\{?(?:0|BASH_SOURCE)\b(?:\[0\])?(?:%/\*)?[\s)}]*((?:/[\w.+-]+)*)")
_END = re.compile(r"(?:^|[)}])((?:/[\w.+-]+)*)$")
_MAX_PATH = 300
_NAME = re.compile(r"[\w:-]+")


class BashReader(FactsBuilder):
    """Reads files of shell scripts."""

    def __init__(self, path: str, outline: Outline) -> None:
        super().__init__(path, outline)
        self._folders: dict[str, str] = {}  # of variables, relative to the script's own: {"ROOT": "/.."}

    def _own_folder_path(self, node: Node | None) -> str | None:
        """`/lib/u.sh` of `"$(dirname "$0")/lib/u.sh"`: a path from the script's folder; None for others."""
        text = self.short_text(node, _MAX_PATH).replace('"', "").replace("'", "")
        variable = _VARIABLE.match(text)
        if variable and variable[1] in self._folders:
            rest = _END.match(text, variable.end())
            return self._folders[variable[1]] + rest[1] if rest else None
        own, end = _OWN_PATH.search(text), _END.search(text)
        if own is None or end is None or not ("dirname" in text or "%/*" in text):
            return None
        return own[1] + (end[1] if end.start(1) > own.end(1) else "")

    def _read_command(self, node: Node) -> None:
        """A command may be a function; `source` names a file, of which what is not computed is kept."""
        name = part_of(node, "name")
        text = self.text(name)
        if text in ("source", "."):
            argument = part_of(node, "argument")
            if path := self._own_folder_path(argument):
                self.add_import(node, f".{path}", "*", "*", exported=True)
            elif match := _SOURCE_ARGUMENT.search(_VARIABLE.sub("", self.text(argument)[-200:])):
                self.add_import(node, match[1], "*", "*", exported=True)
        elif name is not None and _NAME.fullmatch(text):
            self.add_use("calls", text, name)

    def _read_variable(self, node: Node) -> None:
        """What is set outside of functions is a definition."""
        name, scope, around = self.text(part_of(node, "name")), self.scope(node), node.parent
        if not _NAME.fullmatch(name):
            return
        if (folder := self._own_folder_path(part_of(node, "value"))) is not None:
            self._folders.setdefault(name, folder)
        declared = self.text(around) if around is not None and around.type == "declaration_command" else ""
        if declared.startswith("local"):
            self.local_variables.add((scope, name))
        elif not scope:
            self.add_definition(name, "variable", node)

    def _read_expansion(self, node: Node) -> None:
        if (self.scope(node), self.text(node)) not in self.local_variables:
            self.add_use("references", self.text(node), node)

    handlers: Mapping[str, Handler] = {
        "variable": _read_variable,
        "command": _read_command,
        "expanded": _read_expansion,
    }
    expressions = ExpressionSyntax(frozenset({"word", "variable_name"}))
    builtins = _WORDS["builtins"]


class Bash(Language):
    """Bash, and shells like it. What no script defines is a program outside of the source."""

    name = "bash"
    reader = BashReader
    star_exports_all = True

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

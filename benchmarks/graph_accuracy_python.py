"""What pyright or jedi answers at the calls, names, imports and bases of a Python package.

Sites and definitions are read by Python's own `ast`, not by the code that is measured.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.graph_accuracy_score import Answer, Definition, Site, is_asked

Place = tuple[int, int]
"""Line from 1, and column from 0, in characters."""


Located = tuple[Site, list[tuple[str, int, str]]]
"""A site, and where a tool leads from it: absolute path, line, text of the name."""


@dataclass(slots=True)
class Parsed:
    """The definitions of a file, and the sites to ask about, each with the place of its name."""

    path: str
    text: str
    definitions: dict[tuple[int, str], str]  # line and simple name: qualified name
    sites: list[tuple[Site, Place]]
    variables: set[str]  # qualified names
    properties: set[str]  # to read one is to refer to it: that its value is called, says nothing of it
    nameless: list[Site]  # calls of what a call gave, names within texts: no tool is asked


def parsed(path: str, text: str) -> Parsed:
    """The sites and definitions of one file; none where Python cannot parse it."""
    reader = _Reader(path, text)
    try:
        reader.visit_body(ast.parse(text).body)
    except (SyntaxError, RecursionError):
        return Parsed(path, text, {}, [], set(), set(), [])
    found = (reader.variables, reader.properties, reader.nameless)
    return Parsed(path, text, reader.definitions, reader.sites, *found)


class _Reader(ast.NodeVisitor):
    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.lines = text.split("\n")
        self.scope: list[str] = []
        self.in_function = 0
        self.definitions: dict[tuple[int, str], str] = {}
        self.sites: list[tuple[Site, Place]] = []
        self.variables: set[str] = set()
        self.properties: set[str] = set()
        self.nameless: list[Site] = []

    def visit_body(self, body: Iterable[ast.AST]) -> None:
        for each in body:
            self.visit(each)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._visit_decorators(node)
        self._enter(node)
        self.visit(node.args)
        if node.returns is not None:
            self.visit(node.returns)
        self.in_function += 1
        self.visit_body(node.body)
        self.in_function -= 1
        self.scope.pop()

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._visit_decorators(node)
        self._enter(node)
        for base in node.bases:
            named = base.value if isinstance(base, ast.Subscript) else base
            if isinstance(named, ast.Name | ast.Attribute):
                self._site("extends", named)
                self.visit(named.value) if isinstance(named, ast.Attribute) else None
                self.visit(base.slice) if isinstance(base, ast.Subscript) else None
            else:
                self.visit(base)
        self.visit_body(node.keywords)
        self.visit_body(node.body)
        self.scope.pop()

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name | ast.Attribute):
            self._site("calls", node.func)
            if isinstance(node.func, ast.Attribute):
                self.visit(node.func.value)
        else:
            self.nameless.append(Site("calls", (self.path, ".".join(self.scope)), node.lineno, ""))
            self.visit(node.func)
        self.visit_body([*node.args, *node.keywords])

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self._site("references", node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self._site("references", node)
        self.visit(node.value)

    def visit_Import(self, node: ast.Import) -> None:
        for each in node.names:
            end = each.col_offset + len(each.name)
            self._add("imports", each.name, each.lineno, end - 1)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        module = "." * node.level + (node.module or "")
        column = self.lines[node.lineno - 1].find(module, node.col_offset)
        if column >= 0:
            self._add("imports", module, node.lineno, column + len(module) - 1)
        for each in node.names:
            if each.name != "*":
                self._add("imports", each.name, each.lineno, each.col_offset)

    def visit_Constant(self, node: ast.Constant) -> None:
        """What a text names, where it is an annotation, no tool is asked."""
        if isinstance(node.value, str):
            source = (self.path, ".".join(self.scope))
            self.nameless.append(Site("references", source, node.lineno, ""))

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            self._variables(target)
        self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self._variables(node.target)
        self.generic_visit(node)

    def _variables(self, target: ast.expr) -> None:
        """Variables of a module or class are definitions."""
        if isinstance(target, ast.Tuple | ast.List):
            for each in target.elts:
                self._variables(each)
        elif isinstance(target, ast.Name) and not self.in_function:
            qualified = ".".join([*self.scope, target.id])
            self.definitions.setdefault((target.lineno, target.id), qualified)
            self.variables.add(qualified)

    def _visit_decorators(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
        for each in node.decorator_list:
            if isinstance(each, ast.Name | ast.Attribute):
                self._site("calls", each)
                self.visit(each.value) if isinstance(each, ast.Attribute) else None
            else:
                self.visit(each)

    def _enter(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
        self.scope.append(node.name)
        self.definitions[node.lineno, node.name] = ".".join(self.scope)
        if any("property" in ast.dump(each) for each in node.decorator_list):
            self.properties.add(".".join(self.scope))

    def _site(self, kind: str, node: ast.Name | ast.Attribute) -> None:
        name = node.id if isinstance(node, ast.Name) else node.attr
        line = self.lines[(node.end_lineno or node.lineno) - 1]
        end = len(line.encode()[: node.end_col_offset].decode(errors="replace"))
        self._add(kind, name, node.end_lineno or node.lineno, max(0, end - len(name)))

    def _add(self, kind: str, name: str, line: int, column: int) -> None:
        source = (self.path, ".".join(self.scope))
        if is_asked(kind, source):
            self.sites.append((Site(kind, source, line, name), (line, column)))


class Truth:
    """A package as another tool sees it."""

    def __init__(self, root: Path, texts: dict[str, str]) -> None:
        self.root = root
        self.files = {path: parsed(path, text) for path, text in texts.items()}

    def answers(self, located: Iterable[Located]) -> dict[Site, Answer]:
        """Answers from the places that a tool leads to."""
        found: dict[Site, Answer] = {}
        for site, places in located:
            answer = self._answer(site, places)
            before = found.get(site, Answer())
            inside = tuple(dict.fromkeys(before.inside + answer.inside))
            found[site] = Answer(inside, before.outside or answer.outside, self._of_variable(inside))
        return found | {site: Answer() for file in self.files.values() for site in file.nameless}

    def _of_variable(self, inside: tuple[Definition, ...]) -> bool:
        return bool(inside) and all(name in self.files[path].variables for path, name in inside)

    def _answer(self, site: Site, places: list[tuple[str, int, str]]) -> Answer:
        inside: list[Definition] = []
        outside = False
        for path, line, name in places:
            relative = _relative(path, self.root)
            if relative is None or relative not in self.files:
                outside = outside or not path.endswith(f"/{Path(site.source[0]).name}")
            elif site.kind == "imports" and line == 1 and (1, name) not in self.files[relative].definitions:
                inside.append((relative, ""))
            elif (qualified := self.files[relative].definitions.get((line, name))) is not None:
                inside.append((relative, qualified))
        outside = outside or (site.kind == "references" and bool(places) and not inside)
        if site.kind == "calls":
            inside = [each for each in inside if each[1] not in self.files[each[0]].properties]
        classes = {name for _, name in inside}
        kept = [each for each in inside if each[1].rpartition(".")[0] not in classes or site.kind != "calls"]
        return Answer(tuple(dict.fromkeys(kept)), outside)


def by_pyright(truth: Truth, python: str = sys.executable) -> list[Located]:
    """What pyright's language server calls the definition at each site."""
    with _Server(truth.root, python) as server:
        return list(_locate(server, truth))


def by_jedi(truth: Truth) -> list[Located]:
    """What jedi calls the definition at each site."""
    import jedi

    project = jedi.Project(truth.root)
    located: list[Located] = []
    for path, file in truth.files.items():
        script = jedi.Script(file.text, path=truth.root / path, project=project)
        for site, (line, column) in file.sites:
            try:
                names = script.goto(line, column, follow_imports=True)
            except Exception:  # noqa: BLE001 - jedi fails on some code; it has no answer then
                names = []
            located.append((site, [_jedi_place(name) for name in names]))
    return located


def _jedi_place(name: Any) -> tuple[str, int, str]:
    return str(name.module_path or "builtins"), name.line or 1, name.name


def _relative(path: str, root: Path) -> str | None:
    try:
        return Path(path).relative_to(root).as_posix()
    except ValueError:
        return None


def _locate(server: _Server, truth: Truth) -> Iterator[Located]:
    for path, file in truth.files.items():
        uri = (truth.root / path).as_uri()
        server.tell(
            "textDocument/didOpen",
            {"textDocument": {"uri": uri, "languageId": "python", "version": 1, "text": file.text}},
        )
        for site, (line, column) in file.sites:
            position = {"line": line - 1, "character": column}
            result = server.ask(
                "textDocument/definition", {"textDocument": {"uri": uri}, "position": position}
            )
            yield site, [_place(truth, each) for each in result or ()]
        server.tell("textDocument/didClose", {"textDocument": {"uri": uri}})


def _place(truth: Truth, location: dict[str, Any]) -> tuple[str, int, str]:
    from urllib.parse import unquote, urlparse

    path = unquote(urlparse(location["uri"]).path)
    start, end = location["range"]["start"], location["range"]["end"]
    relative = _relative(path, truth.root)
    if relative is None or relative not in truth.files:
        return path, start["line"] + 1, ""
    lines = truth.files[relative].text.split("\n")
    line = lines[start["line"]] if start["line"] < len(lines) else ""
    return path, start["line"] + 1, line[start["character"] : end["character"]]


class _Server:
    """A language server over its standard streams."""

    def __init__(self, root: Path, python: str) -> None:
        command = [str(Path(python).with_name("pyright-langserver")), "--stdio"]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self._python = python
        self._root = root
        self._number = 0

    def __enter__(self) -> _Server:
        folders = [{"uri": self._root.as_uri(), "name": "package"}]
        capabilities = {"workspace": {"configuration": True, "workspaceFolders": True}}
        self.ask(
            "initialize",
            {
                "processId": None,
                "rootUri": self._root.as_uri(),
                "capabilities": capabilities,
                "workspaceFolders": folders,
            },
        )
        self.tell("initialized", {})
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()

    def tell(self, method: str, params: dict[str, Any]) -> None:
        self._send({"jsonrpc": "2.0", "method": method, "params": params})

    def ask(self, method: str, params: dict[str, Any]) -> Any:
        self._number += 1
        number = self._number
        self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        while True:
            message = self._receive()
            if "method" in message and "id" in message:
                self._send({"jsonrpc": "2.0", "id": message["id"], "result": self._reply(message)})
            elif message.get("id") == number:
                return message.get("result")

    def _reply(self, message: dict[str, Any]) -> Any:
        if message["method"] != "workspace/configuration":
            return None
        settings = {
            "python": {"pythonPath": self._python},
            "python.analysis": {"diagnosticMode": "openFilesOnly", "typeCheckingMode": "off"},
        }
        return [settings.get(item.get("section", ""), {}) for item in message["params"]["items"]]

    def _send(self, message: dict[str, Any]) -> None:
        body = json.dumps(message).encode()
        assert self._process.stdin is not None
        self._process.stdin.write(f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
        self._process.stdin.flush()

    def _receive(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        length = 0
        while line := self._process.stdout.readline().strip():
            name, _, value = line.decode().partition(":")
            length = int(value) if name.lower() == "content-length" else length
        return json.loads(self._process.stdout.read(length))

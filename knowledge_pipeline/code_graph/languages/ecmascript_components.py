"""Components of Vue, Svelte and Astro: modules with the code of their scripts and of their templates.

A script is read with all else blanked, so that lines and columns are those of the file. What a template does
is written as statements, each on its line: `{{ format(x) }}` as `format(x)`, `<MyCard>` as `MyCard()`,
`v-for="row in rows"` as a loop. All of it belongs to the component: a function named after the file, and the
default of the module.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from knowledge_pipeline.code_graph.facts import Binding, Definition, FileFacts
from knowledge_pipeline.code_graph.languages.embedded import Read, blank_around

COMPONENT_SUFFIXES = (".vue", ".svelte", ".astro")

_NAME_PART, _NAME_WORD = re.compile(r"[^\W_]+"), re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^A-Za-z]+")
_BLOCK = r"""<!--|<(?P<block>script|style)\b(?P<attributes>(?:[^<>"']|"[^"]*"|'[^']*')*+)>"""
_TAG = r"<(?P<tag>[A-Za-z][\w.-]*)"
_VUE = re.compile(rf"{_BLOCK}|{_TAG}|\{{\{{|\s(?P<name>(?:v-|[:@])[^\s=>\"'<]*)=(?P<quote>[\"'])")
_BRACED = re.compile(
    rf"{_BLOCK}|{_TAG}|\{{|\s(?:use|transition|animate|in|out):(?P<action>[A-Za-z_$][\w$.]*)"
)
_BRACE = re.compile(r"""[{}]|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'""")
_JSX = re.compile(r"\blang=[\"']?[jt]sx\b")
_PUG = re.compile(r"<template\b[^<>]*\blang=[\"']?(?!html)\w")
_VUE_LOOP = re.compile(r"\s*\(?\s*(\{[^{}]*\}|\[[^\[\]]*\]|[\w$]+)([^()]*?)\)?\s+(?:in|of)\s(.*)", re.DOTALL)
_SVELTE_BLOCK = re.compile(r"[#:/@](\w*)(?:\s+if\b)?")
_AWAITED = re.compile(r"\s(?:then|catch)\b")
_DATA = re.compile(r"\btype=[\"']?+(?!module|text/(?:javascript|typescript|babel))|\blang=[\"']?+(?![jt]s)")
_OPTION_PARTS = 3  # "default", "methods", the name
_MAX_LOOP_CHARS = 500
_SVELTE_LOOP = re.compile(r"(.*)\sas\s+(\{[^{}]*\}|\[[^\[\]]*\]|[\w$]+)(.*)", re.DOTALL)
_EXPORT = re.compile(r"^[ \t]*export\b", re.MULTILINE)
_STORE = re.compile(r"(?<![\w$.])\$([A-Za-z_]\w*)")
_FRONTMATTER = re.compile(r"\s*---[ \t]*\n(.*?\n)?---", re.DOTALL)

_Piece = tuple[int, str]  # a character of the file, and code of that place


def name_component(path: str) -> list[str]:
    """The name of a file's component, and that with its folders', as Nuxt has it: `Link`, `StatusLink`."""
    *folders, name = path.split("/")
    stem = name.partition(".")[0]
    inner = folders[len(folders) - folders[::-1].index("components") :] if "components" in folders else []
    if stem == "index" and inner:
        stem, inner = inner[-1], inner[:-1]
    own = _to_pascal(stem) or "Component"
    around, words = _NAME_WORD.findall("".join(map(_to_pascal, inner))), _NAME_WORD.findall(own)
    shared = next((n for n in range(len(words), 0, -1) if around[-n:] == words[:n]), 0)
    return list(dict.fromkeys([own, "".join([*around, *words[shared:]])]))


def extract_component(path: str, text: str, language: str, read: Read) -> FileFacts:
    """The facts of a component; `read` gives those of code in a path, by its text and language."""
    scripts, template = _split(text, language)
    is_jsx = language == "astro" or any(_JSX.search(attributes) for _, _, attributes in scripts)
    grammar = "tsx" if is_jsx else "typescript"
    code = blank_around(text, ((start, text[start:end]) for start, end, _ in scripts))
    script, exports = read(path, code, grammar), _EXPORT.search(code) is not None
    shown = read(path, _write_statements(text, template), grammar)
    component, *others = name_component(path)
    itself = Definition(component, "function", 1, text.count("\n") + 1, f"component {component}")
    names = {definition.name for definition in script.definitions} | {it.local for it in script.imports}
    same = [("", name, f"@file.{component}") for name in ("default", *others)]
    if language == "svelte":
        same += [("", f"${name}", f"@file.{name}") for name in sorted(set(_STORE.findall(text)) & names)]
    # what templates call the methods of `export default { methods: … }`
    options = (name.split(".") for name in sorted(names) if name.startswith("default."))
    same += [(".".join(it), f"@in {component}@{it[-1]}", "@") for it in options if len(it) == _OPTION_PARTS]
    own = (binding._replace(scope=binding.scope or component) for binding in shown.bindings)
    uses = (use._replace(scope=use.scope or component) for use in (*script.uses, *shown.uses))
    return replace(
        script,
        language=language,
        definitions=(itself, *(it._replace(exported=exports and it.exported) for it in script.definitions)),
        bindings=(*script.bindings, *own, *(Binding(*it, declared=True) for it in same)),
        uses=tuple(dict.fromkeys(uses)),
    )


def _to_pascal(name: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in _NAME_PART.findall(name))


def _write_statements(text: str, pieces: Iterable[_Piece]) -> str:
    """Statements, each on the line on which it starts in a text."""
    written, at, line, due = list[str](), 0, 0, 0
    for start, piece in pieces:
        due += text.count("\n", at, start)
        written += ["\n" * (due - line), piece, ";"]
        at, line = start, max(line, due) + piece.count("\n")
    return "".join(written)


def _split(text: str, language: str) -> tuple[list[tuple[int, int, str]], list[_Piece]]:
    """Start, end and attributes of the scripts; what the rest does, as code."""
    scripts, pieces, at = list[tuple[int, int, str]](), list[_Piece](), 0
    if language == "astro" and (match := _FRONTMATTER.match(text)):
        scripts, at = [(*match.span(1), "")] if match[1] else [], match.end()
    token = _VUE if language == "vue" else _BRACED
    while match := token.search(text, at):
        start, at, groups = match.start(), match.end(), match.groupdict()
        if match[0] == "<!--":
            end = text.find("-->", at)
        elif block := groups["block"]:
            end = text.find(f"</{block}", at)
            end = len(text) if end < 0 else end
            if block == "script" and not _DATA.search(groups["attributes"]):
                scripts.append((at, end, groups["attributes"]))
        elif tag := groups["tag"]:
            end = text.find("</template", at) if _PUG.match(text, start) else at
            name = _to_pascal(tag) if language == "vue" and "-" in tag else tag
            pieces += [(start, f"{name}()")] if name[0].isupper() or "." in name else []
        elif action := groups.get("action"):
            end = at
            pieces.append((start, action))
        else:
            quote = groups.get("quote") or ("}}" if language == "vue" else "")
            end = text.find(quote, at) if quote else _find_closing_brace(text, at)
            code = _write_expression(text[at:end], groups.get("name") or "", language) if end >= 0 else ""
            pieces += [(at, code)] if code else []
        if end < 0:  # it is open up to the end of the file
            break
        at = end
    return scripts, pieces


def _find_closing_brace(text: str, at: int) -> int:
    depth = 1
    for match in _BRACE.finditer(text, at):
        depth += {"{": 1, "}": -1}.get(match[0], 0)
        if not depth:
            return match.start()
    return -1


def _write_expression(text: str, name: str, language: str) -> str:
    """What an attribute, of which Vue has the name, or a pair of braces does, as a statement."""
    if name.startswith(("@", "v-on")):
        return text
    pattern, loop = "", None
    if name == "v-for" and len(text) < _MAX_LOOP_CHARS and (loop := _VUE_LOOP.match(text)):
        pattern, text = loop[1], loop[3]
    if language == "svelte" and (block := _SVELTE_BLOCK.match(text)):
        text = text[block.end() :]
        if block[1] == "each" and len(text) < _MAX_LOOP_CHARS and (loop := _SVELTE_LOOP.match(text)):
            pattern, text = loop[2], loop[1]
        if block[1] == "await":
            text = _AWAITED.split(text)[0]
        if block[1] in ("snippet", "then", "catch", "debug"):
            return ""
    text = text.strip().removeprefix("...")
    is_nothing = not text or text.startswith("/") or name.startswith("v-slot")
    return "" if is_nothing else f"for (const {pattern} of {text})" if pattern else f"({text})"

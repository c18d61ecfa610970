"""Formulas and raised numbers of office files on one line: `(a+b)/c`, `2^32`.

Source: ECMA-376, part 1, section 22.1 (Office Math); the linear form follows UnicodeMath,
https://www.unicode.org/notes/tn28/
"""

from __future__ import annotations

import re
from collections.abc import Callable

from knowledge_pipeline.extraction.markdown import format_superscript
from knowledge_pipeline.extraction.office_package import Element, iter_elements, local_name

M = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"

RAISED = "\x01{}\x02"
"""Around raised text until its line is whole: XML cannot contain these two characters."""
_RAISED = re.compile(r"([^\s\x01\x02]?)\x01([^\x01\x02]*)\x02")
_OF_EXPONENTS = re.compile(r"[\d+*/\-\u2212]")
_VARIABLES = frozenset("ijkmnpqtxyzNT")  # not the letters of ordinals, as in "1e" and "4\u00e8me"
_NUMBER = re.compile(r"[+\-\u2212]?\d[\d.,]*")


def write_raised(text: str) -> str:
    """A line whose raised text stands after "^" where it is an exponent."""
    return _RAISED.sub(_raise, text.replace("\x02\x01", ""))


def _raise(match: re.Match[str]) -> str:
    before, raised = match.groups()
    is_exponent = _OF_EXPONENTS.search(raised) or raised.strip() in _VARIABLES
    return before + (format_superscript(raised, before) if is_exponent else raised)


def format_formula(formula: Element) -> str:
    """A formula on one line."""
    return "".join(map(_format, iter_elements(formula)))


def _format(element: Element) -> str:
    name = local_name(element)
    if element.tag == f"{M}t":
        return element.text or ""
    if name.endswith("Pr") or name in ("del", "moveFrom"):
        return ""
    shape = _SHAPES.get(name) if element.tag.startswith(M) else None
    return shape(element) if shape else format_formula(element)


def _child(element: Element, name: str) -> str:
    child = element.find(f"{M}{name}")
    return "" if child is None else format_formula(child)


def _property(element: Element, name: str, default: str) -> str:
    holder = element.find(f"{M}{local_name(element)}Pr/{M}{name}")
    return default if holder is None else holder.get(f"{M}val", default)


def _group(text: str, *, words: bool = False) -> str:
    """In parentheses where it would be read otherwise; `words`: several letters are one thing too."""
    text = text.strip()
    one = len(text) < 2 or _NUMBER.fullmatch(text) or (words and text.isalnum())
    return text if one else f"({text})"


def _fraction(element: Element) -> str:
    sign = "\u00a6" if _property(element, "type", "") == "noBar" else "/"
    return f"{_group(_child(element, 'num'), words=True)}{sign}{_group(_child(element, 'den'))}"


def _script(element: Element) -> str:
    parts = [_child(element, "e")]
    for name, sign in (("sub", "_"), ("sup", "^"), ("lim", "^" if local_name(element) == "limUpp" else "_")):
        if script := _group(_child(element, name)):
            parts.append(f"{sign}{script}")
    return "".join(parts)


def _root(element: Element) -> str:
    degree = _child(element, "deg").strip()
    return f"\u221a{f'[{degree}]' if degree else ''}{_group(_child(element, 'e'))}"


def _sum(element: Element) -> str:
    scripts = ((sign, _group(_child(element, name))) for name, sign in (("sub", "_"), ("sup", "^")))
    limits = "".join(f"{sign}{script}" for sign, script in scripts if script)
    return f"{_property(element, 'chr', chr(0x222B))}{limits} {_child(element, 'e')}"


def _brackets(element: Element) -> str:
    inner = _property(element, "sepChr", "|").join(map(format_formula, element.findall(f"{M}e")))
    return f"{_property(element, 'begChr', '(')}{inner}{_property(element, 'endChr', ')')}"


def _function(element: Element) -> str:
    name, argument = _child(element, "fName"), _child(element, "e")
    return f"{name}{'' if argument.startswith('(') else ' '}{argument}"


def _matrix(element: Element) -> str:
    rows = (", ".join(map(format_formula, row.findall(f"{M}e"))) for row in element.findall(f"{M}mr"))
    return f"[{'; '.join(rows)}]"


def _equations(element: Element) -> str:
    return "; ".join(format_formula(line).replace("&", "") for line in element.findall(f"{M}e"))


def _accent(element: Element) -> str:
    return f"{_child(element, 'e')}{_property(element, 'chr', chr(0x302))}"


_SHAPES: dict[str, Callable[[Element], str]] = {
    "f": _fraction,
    **dict.fromkeys(("sSub", "sSup", "sSubSup", "limLow", "limUpp"), _script),
    "rad": _root,
    "nary": _sum,
    "d": _brackets,
    "func": _function,
    "m": _matrix,
    "eqArr": _equations,
    "acc": _accent,
}

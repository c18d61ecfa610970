"""Names by which the parts of a system meet: routes, topics, tables, variables and feature flags. Pure.

A name has one spelling in all repositories, so that who declares it and who uses it meet at it:
"route POST /orders/{}", "topic orders", "table orders", "variable ORDERS_URL", "flag new-checkout". A route's
method is `*` where it is any, or unknown; a segment that varies is `{}`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

KINDS = ("route", "topic", "table", "variable", "flag")
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")
ANY_METHOD = "*"
OWNERS = "owners"  # a line of CODEOWNERS is stored like a name: "owners /shop/ @acme/orders"
SUFFIX_CONFIDENCE = 0.6  # of routes of which one ends with the other: a base or a prefix is not known

_MAX_CHARS, _MAX_SEGMENTS = 200, 12
_ROUTE = re.compile(r"(?:(?P<method>[A-Za-z]{2,10}|\*)\s+)?(?P<path>\S*)")
_ADDRESS = re.compile(r"(?:[a-zA-Z][a-zA-Z+.-]{1,9}:)?//[^/?#\s]*")
_PLACEHOLDER = re.compile(r"\{[^{}]*(?:\{[^{}]*\}[^{}]*)?\}")
_VARYING = re.compile(r"\{\}|^[:*]|[<>*]|^\d+$|^[0-9a-fA-F]{8}-[0-9a-fA-F-]{27}$|^[0-9a-f]{16,64}$")
_SEGMENT = re.compile(r"\{\}|[\w.~%@:+,;=!()'&-]+")
_COMMON_SEGMENT = re.compile(
    r"|\{\}|health[zy]?|healthy|metrics|readyz?|livez?|ping|version"
)  # of all services
_NAME = re.compile(r"[\w{}][\w.:{}/$-]*")


def build_name(kind: str, name: str) -> str | None:
    """The name of anything but a route; None for what is none, or is computed whole."""
    name = name.strip()
    if kind == "table":
        name = re.sub(r"[\"`\[\]]", "", name).rpartition(".")[2].lower()
    if not _NAME.fullmatch(name) or len(name) > _MAX_CHARS or not name.replace("{}", "").strip(".:/-_"):
        return None
    return f"{kind} {name}"


def build_route(method: str, address: str) -> str | None:
    """The name of a route by a path or a whole address of it; None for what is none."""
    path = normalize_path(address)
    return f"route {method.upper()} {path}" if path else None


def normalize_path(address: str) -> str | None:
    """The path of an address in lower case: `/orders/{}` of "http://shop/Orders/:id?all=1"."""
    path = re.split(r"[?#]", _PLACEHOLDER.sub("{}", address.strip()), maxsplit=1)[0]
    path = _ADDRESS.sub("", path, count=1) if "//" in path[:12] else path
    if path.startswith("{}"):
        path = path[2:]  # a base address
    path = f"/{path}" if path[:1].isalpha() and "/" in path else path
    segments = [segment for segment in path.lower().split("/") if segment]
    if not path.startswith("/") or len(path) > _MAX_CHARS or len(segments) > _MAX_SEGMENTS:
        return None
    segments = ["{}" if _VARYING.search(segment) else segment for segment in segments]
    return "/" + "/".join(segments) if all(map(_SEGMENT.fullmatch, segments)) else None


def parse_system_name(text: str) -> str | None:
    """The name that a person writes: "POST /orders/42", "route /orders", "topic orders"; None for others."""
    kind, _, rest = text.strip().partition(" ")
    if kind in KINDS[1:]:
        return build_name(kind, rest)
    match = _ROUTE.fullmatch((rest if kind == "route" else text).strip())
    method = ((match and match["method"]) or ANY_METHOD).upper()
    if (
        match is None
        or method not in (*METHODS, ANY_METHOD, "ANY")
        or (kind != "route" and not match["method"])
    ):
        return None
    path = match["path"]
    path = path if path.startswith("/") or "://" in path else f"/{path}"
    return build_route(ANY_METHOD if method == "ANY" else method, path)


def is_system_name(name: str) -> bool:
    """Whether the target of an edge is such a name."""
    return name.partition(" ")[0] in KINDS and " " in name


def list_stored_names(name: str) -> Iterator[tuple[str, float]]:
    """The names under which an edge is stored, with what each is worth: of routes their endings, too.

    An ending is written with `…`, so that it is not taken for a whole route: "route GET …/orders/{}".
    """
    yield name, 1.0
    for method, ending in _list_endings(name):
        yield f"route {method} …{ending}", SUFFIX_CONFIDENCE


def list_matching_names(name: str) -> Mapping[str, float]:
    """The stored names that mean a name: those of any method, and routes of which one ends with the other."""
    if not name.startswith("route "):
        return {name: 1.0}
    method, path = name.split(" ", 2)[1:]
    methods = (ANY_METHOD, *METHODS) if method == ANY_METHOD else (method, ANY_METHOD)
    names = {f"route {other} {path}": 1.0 for other in methods}
    for other in methods if has_word(name) else ():
        names[f"route {other} …{path}"] = SUFFIX_CONFIDENCE
    for _, ending in _list_endings(name):
        names |= {f"route {other} {ending}": SUFFIX_CONFIDENCE for other in methods}
    return names


def _list_endings(name: str) -> Iterator[tuple[str, str]]:
    """The method of a route, and each shorter end of its path that has a word."""
    if name.startswith("route "):
        method, path = name.split(" ", 2)[1:]
        segments = path.split("/")[1:]
        for start in range(1, len(segments)):
            if has_word(ending := "/" + "/".join(segments[start:])):
                yield method, ending


def has_word(route: str) -> bool:
    """Whether a part of a route's path tells it apart from those of other services."""
    return any(not _COMMON_SEGMENT.fullmatch(segment) for segment in route.split("/")[1:])

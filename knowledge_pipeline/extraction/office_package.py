"""The parts of a Word document or a presentation, and how they refer to each other.

What a part refers to and the archive does not hold is no reason to lose the rest: it is counted, for a note.

Source: ECMA-376, part 2 (Open Packaging Conventions), and part 1 for the names of Strict documents,
https://ecma-international.org/publications-and-standards/standards/ecma-376/
"""

from __future__ import annotations

import posixpath
import re
import struct
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from typing import IO, Any
from urllib.parse import unquote
from zipfile import BadZipFile, ZipFile

from lxml import etree

from knowledge_pipeline.errors import DocumentSkipped
from knowledge_pipeline.extraction.archives import describe_broken_archive, require_bounded_archive

MC = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"

Element = Any  # lxml's, which has no type of its own

_UNREADABLE = (BadZipFile, zlib.error, struct.error, KeyError, EOFError, NotImplementedError, RuntimeError,
               OSError, ValueError, etree.XMLSyntaxError)  # fmt: skip
_STRICT_NAMESPACE = re.compile(rb"http://purl\.oclc\.org/ooxml/(\w+)/(\w+)")
_TEXT_TAGS = re.compile(r"^\{[^}]*\}(?:t|v|chart|relIds|sym)$")


@dataclass(frozen=True, slots=True)
class PartRelation:
    """What a part refers to: `kind` is "image", "hyperlink", "footnotes" and so on.

    `target` is the name of a part, or an address where it is `external`.
    """

    kind: str
    target: str
    external: bool


class OfficePackage:
    """The parts of one file by their names.

    Args:
        payload: the bytes of the file.
        kind: its format in capitals, for reasons.
        main: the name of the main part where the file does not say it.
        included: whether another document contains it.

    Raises:
        DocumentSkipped: it is no archive, or unpacks to far more than a document has.
    """

    def __init__(self, payload: bytes, kind: str, main: str, *, included: bool = False) -> None:
        require_bounded_archive(payload, kind)
        self._payload, self._kind, self.included = payload, kind, included
        self._archive = ZipFile(BytesIO(payload))
        self._names = {_normalize(name): name for name in self._archive.namelist()}
        self._relations: dict[str, dict[str, PartRelation]] = {}
        self.unread = Counter[str]()
        """How many parts of a kind were not read."""
        self.rendered = set[str]()
        """Parts that were taken already: a hostile file refers to one a thousand times."""
        roots = self.relations("").values()
        documents = (relation.target for relation in roots if relation.kind == "officeDocument")
        self.main = next(filter(self.has, documents), main)

    def has(self, name: str) -> bool:
        """Whether there is a part of this name."""
        return _normalize(name) in self._names

    def require_main(self, tag: str) -> Element:
        """The root of the main part. Raises DocumentSkipped: it is missing, broken, or of another format."""
        if not self.has(self.main):
            raise self.build_broken_error(f"it has no {self.main}")
        root = self.load(self.main)
        if root is None:
            raise self.build_broken_error(f"{self.main} is damaged")
        if root.tag != tag:
            raise self.build_broken_error("it holds something else")
        return root

    def build_broken_error(self, reason: str = "its parts do not fit together") -> DocumentSkipped:
        """Why the file as a whole cannot be read."""
        return DocumentSkipped(describe_broken_archive(self._payload, self._kind, reason))

    def open(self, name: str) -> IO[bytes]:
        """A large part, to be read piece by piece. Raises KeyError: it is missing."""
        return self._archive.open(self._names[_normalize(name)])

    def read(self, name: str) -> bytes | None:
        """The bytes of a part; None where it is missing or damaged."""
        try:
            return self._archive.read(self._names[_normalize(name)])
        except _UNREADABLE:
            return None

    def load(self, name: str) -> Element | None:
        """The root of a part in XML, names of Strict documents as the others write them."""
        content = self.read(name)
        if content is None:
            return None
        if b"purl.oclc.org/ooxml" in content:
            content = _STRICT_NAMESPACE.sub(rb"http://schemas.openxmlformats.org/\1/2006/\2", content)
        try:
            return etree.fromstring(content, _new_parser())
        except _UNREADABLE:
            return None

    def relations(self, name: str) -> dict[str, PartRelation]:
        """What a part refers to, by the ids that it uses; "" for the package itself."""
        if name not in self._relations:
            folder, base = posixpath.split(name)
            part = posixpath.join(folder, "_rels", f"{base}.rels")
            root = self.load(part)
            if root is None and self.has(part):
                self.unread["list of relations"] += 1
            elements: Iterable[Element] = () if root is None else root.iter("{*}Relationship")
            self._relations[name] = dict(_iter_relations(elements, folder))
        return self._relations[name]

    def find_link(self, part: str, id_: str) -> str:
        """The address behind the id of a relation of a part; "" for none."""
        relation = self.relations(part).get(id_)
        return relation.target if relation and relation.kind == "hyperlink" and relation.external else ""

    def load_related(self, name: str, kind: str) -> Iterator[tuple[str, Element]]:
        """Name and root of each part of a kind that a part refers to, as far as it can be read; each once."""
        for relation in self.relations(name).values():
            if relation.kind == kind and not relation.external and relation.target not in self.rendered:
                self.rendered.add(relation.target)
                root = self.load(relation.target)
                if root is not None:
                    yield relation.target, root

    @cached_property
    def title(self) -> str:
        """The title that its properties name."""
        parts = (root for _, root in self.load_related("", "core-properties"))
        titles = (root.findtext("{http://purl.org/dc/elements/1.1/}title") for root in parts)
        return next((words for title in titles if (words := " ".join((title or "").split()))), "")


def parse_part(archive: ZipFile, name: str) -> Element:
    """The root of a part in XML. Raises what zipfile, zlib and lxml do for a broken one."""
    return etree.fromstring(archive.read(name), etree.XMLParser(resolve_entities=False, no_network=True))


def iter_elements(container: Element) -> Iterator[Element]:
    """Its elements, without comments; of alternatives the first that has text, else the first.

    Newer programs show the first, and older ones the last: what only a later one reads may have no text.
    """
    for element in container:
        if element.tag == f"{MC}AlternateContent":
            choices = list(element.iterchildren(f"{MC}Choice", f"{MC}Fallback"))
            chosen = next(filter(_is_read, choices), choices[0] if choices else ())
            yield from iter_elements(chosen)
        elif isinstance(element.tag, str):
            yield element


def parse_int(text: str | None, default: int = 0) -> int:
    """A number of nine digits at most; the default for what is none."""
    return int(text[:9]) if text and text.isascii() and text.isdecimal() else default


def local_name(element: Element) -> str:
    """The name of an element without its namespace."""
    return element.tag.rpartition("}")[2]


def _is_read(choice: Element) -> bool:
    """Whether it takes no extension of the format, or has text that is read here."""
    return choice.get("Requires") in ("w", "p", "a") or any(
        _TEXT_TAGS.match(inner.tag) for inner in choice.iter(etree.Element)
    )


def _new_parser() -> etree.XMLParser:
    return etree.XMLParser(resolve_entities=False, no_network=True, remove_comments=True, remove_pis=True)


def _iter_relations(elements: Iterable[Element], folder: str) -> Iterator[tuple[str, PartRelation]]:
    for element in elements:
        target, external = element.get("Target", ""), element.get("TargetMode") == "External"
        if not external:
            target = posixpath.normpath(posixpath.join("/", folder, _normalize_slashes(target))).lstrip("/")
        kind = element.get("Type", "").rpartition("/")[2]
        yield (
            element.get("Id", ""),
            PartRelation("core-properties" if kind == "coreProperties" else kind, target, external),
        )


def _normalize_slashes(name: str) -> str:
    return unquote(name).replace("\\", "/")


def _normalize(name: str) -> str:
    return _normalize_slashes(name).lstrip("/").lower()

"""Specifications of APIs in a tree of files: those that say what they are, and the files they are made of.

A relative reference is followed to a file that the same tree lists, and to nothing else: no address, no
absolute path, no way out of the source, no symbolic link. Each part stays a document at its own place. What a
document's references point at comes with it, in its metadata `specification`, and its revision changes with
every file it so depends on.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any
from urllib.parse import unquote

from knowledge_pipeline.connectors.base import format_too_large
from knowledge_pipeline.connectors.files import (
    FileContent,
    FileEntry,
    FileScan,
    FileTree,
    ListingMemory,
    Outline,
    SpecificationFile,
    SpecificationListing,
)
from knowledge_pipeline.errors import DocumentSkipped
from knowledge_pipeline.file_languages import is_openapi
from knowledge_pipeline.records import hash_strings
from knowledge_pipeline.text import is_list, is_object
from knowledge_pipeline.untrusted_yaml import KeyPath, parse_yaml, resolve_pointer, split_pointer

_VERSION = "1"  # of what comes with a document
_MAX_HOPS = 6  # from file to file, for one value
_MAX_CHAIN = 30  # references followed one into the other
_MAX_DEPTH = 8
_MAX_VALUES, _MAX_VALUES_OF_ALL = 300, 60_000  # of what one reference, and all of a document, point at
_MAX_REFERENCES = 5_000  # of one document
_MAX_OPENED_BYTES = 10_000_000  # of other files, for one document
_MAX_PARSED_BYTES = 50_000_000  # of files that are kept, for those that refer to them too
_PLACE_DEPTH = 3  # of an operation, and of a schema
_MAX_REMEMBERED_FILES = 100_000

_REFERENCE = re.compile(
    rb"""\$ref["']?[ \t]*:[ \t\r\n]{0,99}(?:"([^"\n]{1,999})"|'([^'\n]{1,999})'|([^\s"',}\]]{1,999}))"""
)
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//")

_Place = tuple[str, str]
"""A file's path, and a pointer into it."""


class SpecificationTree:
    """Of a tree, the files that are or belong to specifications of APIs."""

    def __init__(self, tree: FileTree, max_bytes: int, memory: ListingMemory | None = None) -> None:
        """`max_bytes`: a larger file is a specification by its beginning, and never a part of one."""
        self._tree, self._max_bytes, self._memory = tree, max_bytes, memory or ListingMemory()
        self._listing = self._memory.specifications
        self._values: dict[str, Any] = {}  # parsed files by path
        self._parsed_bytes = 0

    def list_entries(self) -> Iterator[FileEntry]:
        """Every specification and its parts, in the tree's order; and what the tree skips."""
        former = self._listing.scans if self._listing else {}
        listing, entries = SpecificationListing(), list(self._tree.list_entries())
        self._values, self._parsed_bytes = {}, 0
        for at, entry in enumerate(entries):
            if entry.skip is None and entry.size_bytes:
                try:
                    listing.scans[_key(entry)] = former.get(_key(entry)) or self._scan(entry)
                except DocumentSkipped as reason:
                    entries[at] = replace(entry, skip=str(reason))
            listing.files.setdefault(entry.path, entries[at])
        members = self._find_members(listing, entries)
        listing.members = {(entry.path, entry.locator): member for entry, member in members.items()}
        self._listing = listing
        self._memory.specifications = listing if len(listing.scans) <= _MAX_REMEMBERED_FILES else None
        digests = self._hash_files(listing, members)
        for entry in entries:
            member = members.get(entry)
            if entry.skip is not None:
                yield entry
            elif member is not None and (member.entry is not member.whole or digests[entry]):
                role = json.dumps([member.whole.path, member.title, sorted(member.places.items())])
                digest = hash_strings(_VERSION, digests[entry], role)[:16]
                yield replace(entry, revision=f"{entry.revision}:{digest}")
            elif member is not None:
                yield entry

    def read_head(self, entry: FileEntry, limit_bytes: int) -> bytes:
        """As the tree."""
        return self._tree.read_head(entry, limit_bytes)

    def read(self, path: str, locator: str, limit_bytes: int) -> FileContent:
        """As the tree; its metadata says of what it is a part, and what its references point at."""
        content = self._tree.read(path, locator, limit_bytes)
        if self._listing is None:
            deque(self.list_entries(), maxlen=0)
        assert self._listing is not None
        member = self._listing.members.get((path, locator))
        if member is None:
            return content
        metadata: dict[str, Any] = {}
        if member.entry is not member.whole:
            metadata = {"part_of": member.whole.path, "title": member.title}
            metadata["places"] = [[list(own), list(whole)] for own, whole in sorted(member.places.items())]
        followed, problems = self._follow_references(path, content.payload)
        metadata |= {"references": followed} if followed else {}
        added: dict[str, Any] = {"specification": metadata} if metadata else {}
        if problems:
            added["note"] = _describe_problems(problems)
        return replace(content, metadata={**content.metadata, **added})

    def close(self) -> None:
        """As the tree."""
        self._tree.close()

    def _scan(self, entry: FileEntry) -> FileScan:
        payload = self._tree.read_head(entry, self._max_bytes)
        matches = (match[1] or match[2] or match[3] for match in _REFERENCE.finditer(payload))
        references = (match.decode("utf-8", "replace") for match in matches if not match.startswith(b"#"))
        return FileScan(is_openapi(payload), tuple(dict.fromkeys(references)))

    def _find_members(
        self, listing: SpecificationListing, entries: Sequence[FileEntry]
    ) -> dict[FileEntry, SpecificationFile]:
        """Specifications, and all files that can be reached from them by references."""
        by_path = dict[str, list[FileEntry]]()
        for entry in entries:
            by_path.setdefault(entry.path, []).append(entry)
        members = dict[FileEntry, SpecificationFile]()
        for entry in entries:
            scan = listing.scans.get(_key(entry)) if entry.skip is None else None
            if scan and scan.is_specification:
                title = self._read_outline(entry, scan).title if scan.references else ""
                members[entry] = SpecificationFile(entry, entry, title)
        placed = deque[tuple[FileEntry, KeyPath, KeyPath]]((entry, (), ()) for entry in members)
        pending = deque(members.values())
        while pending:
            member = pending.popleft()
            for reference in listing.scans[_key(member.entry)].references:
                path, pointer = _split_reference(member.entry.path, reference)
                if not isinstance(self._find_file(listing, path), FileEntry):
                    continue
                for target in by_path[path]:
                    if _key(target) not in listing.scans:
                        continue
                    if target not in members:
                        members[target] = SpecificationFile(target, member.whole, member.title)
                        pending.append(members[target])
                    if not pointer and members[target].entry is not members[target].whole:
                        members[target].places[()] = (posixpath.splitext(posixpath.basename(path))[0],)
        self._place_parts(listing, members, by_path, placed)
        return members

    def _place_parts(
        self,
        listing: SpecificationListing,
        members: Mapping[FileEntry, SpecificationFile],
        by_path: Mapping[str, Sequence[FileEntry]],
        pending: deque[tuple[FileEntry, KeyPath, KeyPath]],
    ) -> None:
        """Note of parts which path, operation or component they are; the first that says so is believed."""
        seen = set[tuple[FileEntry, KeyPath]]()
        while pending:
            entry, written, path_in_whole = pending.popleft()
            scan = listing.scans[_key(entry)]
            if not scan.references:
                continue
            outline = self._read_outline(entry, scan).outline
            for key in written:
                outline = outline.get(key) if is_object(outline) else None
            for keys, reference in _iter_outline(outline, path_in_whole):
                path, pointer = _split_reference(entry.path, reference)
                target_path = split_pointer(pointer)
                for target in by_path.get(path, ()):
                    member = members.get(target)
                    is_new = (target, target_path) not in seen
                    if member and is_new and member.entry is not member.whole:
                        seen.add((target, target_path))
                        member.places[target_path] = keys
                        pending.append((target, target_path, keys))

    def _read_outline(self, entry: FileEntry, scan: FileScan) -> FileScan:
        if not scan.has_outline:
            scan.has_outline = True
            try:
                value = self._load_value(entry)
            except DocumentSkipped:  # what cannot be read leads nowhere
                return scan
            scan.outline = _build_outline(value, _PLACE_DEPTH)
            info = value.get("info") if is_object(value) else None
            title = info.get("title") if is_object(info) else None
            scan.title = title if isinstance(title, str) else ""
        return scan

    def _hash_files(
        self, listing: SpecificationListing, members: Mapping[FileEntry, SpecificationFile]
    ) -> dict[FileEntry, str]:
        """Of each member that refers to others, what changes with these, as far as they are followed."""
        targets = dict[FileEntry, list[FileEntry]]()
        for entry in members:
            paths = (_split_reference(entry.path, it)[0] for it in listing.scans[_key(entry)].references)
            referred = [self._find_file(listing, path) for path in dict.fromkeys(paths)]
            targets[entry] = [target for target in referred if isinstance(target, FileEntry)]
        digests = {entry: entry.revision for entry in members}
        for _ in range(_MAX_HOPS):
            digests = {
                entry: hash_strings(entry.revision, *(digests[it] for it in near if it in digests))
                if near
                else entry.revision
                for entry, near in targets.items()
            }
        return {
            entry: digest if listing.scans[_key(entry)].references else ""
            for entry, digest in digests.items()
        }

    def _find_file(self, listing: SpecificationListing, path: str) -> FileEntry | str:
        """The file at a path, or why there is none to follow."""
        if not path:
            return "an address, an absolute path, or a way out of the source"
        entry = listing.files.get(path)
        if entry is None:
            return "no such file in the source"
        if entry.skip is None and entry.size_bytes > self._max_bytes:
            return format_too_large(entry.size_bytes, self._max_bytes)
        return entry.skip or entry

    def _load_value(self, entry: FileEntry) -> Any:
        """What a file holds; DocumentSkipped where it cannot be read."""
        if entry.variant or entry.path not in self._values:
            payload = self._tree.read(entry.path, entry.locator, self._max_bytes).payload
            value = _parse(payload)
            if entry.variant:
                return value
            if self._parsed_bytes > _MAX_PARSED_BYTES:
                self._values, self._parsed_bytes = {}, 0
            self._values[entry.path] = value
            self._parsed_bytes += len(payload)
        return self._values[entry.path]

    def _follow_references(
        self, path: str, payload: bytes
    ) -> tuple[dict[str, str], Counter[tuple[str, str]]]:
        """What references to other files point at, as JSON; and what cannot be followed, with why."""
        references = list[str]()
        if _REFERENCE.search(payload):
            with suppress(DocumentSkipped):  # who cuts it tells why
                references = list(dict.fromkeys(_iter_references(_parse(payload))))
        followed, problems = dict[str, str](), Counter[tuple[str, str]]()
        room, opened = max(30, min(_MAX_VALUES, _MAX_VALUES_OF_ALL // max(1, len(references)))), _Opened()
        for reference in references[:_MAX_REFERENCES]:
            expansion = _Expansion(self, opened, room)
            try:
                value = expansion.follow(path, reference, (), 0)
            except DocumentSkipped as reason:
                problems[reference, str(reason)] += 1
            else:
                followed[reference] = json.dumps(value, ensure_ascii=False)
        for reference in references[_MAX_REFERENCES:]:
            problems[reference, f"one of more than {_MAX_REFERENCES:,}"] += 1
        return followed, problems

    def open_value(self, path: str, opened: _Opened) -> Any:
        """What a file of the source holds; DocumentSkipped where it may not or cannot be followed."""
        assert self._listing is not None
        entry = self._find_file(self._listing, path)
        if not isinstance(entry, FileEntry):
            raise DocumentSkipped(entry)
        if not opened.add(entry):
            raise DocumentSkipped(f"with others more than {_MAX_OPENED_BYTES:,} bytes")
        return self._load_value(entry)


@dataclass(slots=True)
class _Opened:
    """The files that were opened for one document."""

    paths: set[str] = field(default_factory=set[str])
    size_bytes: int = 0

    def add(self, entry: FileEntry) -> bool:
        """Whether there is room for a file."""
        if entry.path not in self.paths:
            self.paths.add(entry.path)
            self.size_bytes += entry.size_bytes
        return self.size_bytes <= _MAX_OPENED_BYTES


class _Expansion:
    """One reference being followed; it ends after so many values, however they refer to each other."""

    def __init__(self, tree: SpecificationTree, opened: _Opened, room: int) -> None:
        self._tree, self._opened, self._room = tree, opened, room

    def follow(self, path: str, reference: str, seen: Sequence[_Place], depth: int) -> Any:
        """What a reference in a file points at. DocumentSkipped: nothing that can be followed."""
        target, pointer = self._find_place(path, reference)
        value = resolve_pointer(self._tree.open_value(target, self._opened), pointer)
        if value is None:
            raise DocumentSkipped("nothing is there")
        return self._expand(value, target, (*seen, (target, pointer)), depth)

    def _expand(self, value: Any, path: str, seen: Sequence[_Place], depth: int) -> Any:
        self._room -= 1
        if self._room < 0 or depth > _MAX_DEPTH:
            return "…"
        if is_list(value):
            return [self._expand(item, path, seen, depth + 1) for item in value[: self._room + 1]]
        if not is_object(value):
            return value
        reference = value.get("$ref")
        if isinstance(reference, str):
            return self._expand_reference(value, reference, path, seen, depth)
        entries = takewhile(lambda _: self._room > 0, value.items())
        return {key: self._expand(inner, path, seen, depth + 1) for key, inner in entries}

    def _expand_reference(
        self, value: dict[str, Any], reference: str, path: str, seen: Sequence[_Place], depth: int
    ) -> Any:
        """As in `_RefResolver` of the chunker; a circle, and what cannot be followed, stays a reference."""
        target = self._find_place(path, reference)
        if target in seen or len(seen) >= _MAX_CHAIN or len({file for file, _ in seen}) >= _MAX_HOPS:
            return {"$ref": "#".join(filter(None, target))}
        try:
            followed = self.follow(path, reference, seen, depth)
        except DocumentSkipped:  # the file that it stands in tells
            return value
        rest = {key: inner for key, inner in value.items() if key != "$ref"}
        siblings: Any = self._expand(rest, path, seen, depth) if rest else {}
        return {**followed, **siblings} if is_object(followed) and is_object(siblings) else followed

    def _find_place(self, path: str, reference: str) -> _Place:
        file, pointer = _split_reference(path, reference)
        return (path if reference.startswith("#") else file), pointer


def _key(entry: FileEntry) -> tuple[str, str]:
    return entry.path, entry.revision


def _parse(payload: bytes) -> Any:
    return parse_yaml(payload.decode("utf-8", "replace")).value


def _split_reference(path: str, reference: str) -> tuple[str, str]:
    """The file that a reference in another one names ("": none of the source), and the pointer into it."""
    file, _, pointer = reference.partition("#")
    file = unquote(file.partition("?")[0])
    if not file or _ADDRESS.match(file) or file.startswith("/") or "\\" in file or "\0" in file:
        return "", pointer
    target = posixpath.normpath(posixpath.join(posixpath.dirname(path), file))
    return ("" if target == ".." or target.startswith(("../", "/")) else target), pointer


def _build_outline(value: Any, depth: int) -> Outline:
    if not is_object(value):
        return None
    reference = value.get("$ref")
    if isinstance(reference, str):
        return None if reference.startswith("#") else reference
    inner = ((key, _build_outline(below, depth - 1)) for key, below in value.items()) if depth else ()
    return {key: outline for key, outline in inner if outline}


def _iter_outline(outline: Outline, path: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    """The references at places that a part is known by, with these places."""
    if isinstance(outline, str):
        if path:
            yield path, outline
    elif is_object(outline) and len(path) < _PLACE_DEPTH:
        for key, below in outline.items():
            yield from _iter_outline(below, (*path, key))


def _iter_references(value: Any) -> Iterator[str]:
    """Every reference to another file, in the order of the text."""
    pending = [value]
    while pending:
        value = pending.pop()
        if is_list(value):
            pending.extend(reversed(value))
        elif is_object(value):
            reference = value.get("$ref")
            if isinstance(reference, str) and not reference.startswith("#"):
                yield reference
            pending.extend(reversed(value.values()))


def _describe_problems(problems: Counter[tuple[str, str]]) -> str:
    (reference, reason), count = next(iter(problems)), problems.total()
    what = "1 reference is" if count == 1 else f"{count:,} references are"
    like = "" if count == 1 else ", such as"
    return f"{what} not followed{like}: {reference[:100]} ({reason})"

"""Sources whose documents are files of a tree (code, markdown, openapi, files), and the tree of a folder.

Symbolic links are never followed, and a repository inside of a folder is a source of its own.
"""

from __future__ import annotations

import base64
import codecs
import errno
import os
import stat
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from pathspec import GitIgnoreSpec

from knowledge_pipeline.config.connections import LocalConnection
from knowledge_pipeline.config.sources import SourceConfig
from knowledge_pipeline.connectors.base import (
    DELETED_REASON,
    Source,
    build_variant_uri,
    decode_path,
    encode_path,
    format_path,
    format_too_large,
    path_to_uri,
    uri_to_path,
)
from knowledge_pipeline.connectors.git.command import find_git_folder, list_tracked_ignored
from knowledge_pipeline.connectors.patterns import (
    MAX_PLAIN_TEXT_BYTES,
    FileSelection,
    LeftOut,
    build_selection,
)
from knowledge_pipeline.connectors.titles import TITLES_VERSION, extract_title
from knowledge_pipeline.errors import DocumentSkipped, SourceRefused, SourceUnavailable
from knowledge_pipeline.extraction.notebook import NOTEBOOK_VERSION, is_notebook, read_notebook
from knowledge_pipeline.extraction.text_decoding import (
    BYTES_PER_ERROR,
    BYTES_PER_ERROR_IN_CODE,
    DECODING_VERSION,
    ExtractedText,
    add_note,
    decode_text,
)
from knowledge_pipeline.file_languages import TEMPLATE_LANGUAGES, detect_language, is_code
from knowledge_pipeline.records import Document, Item, Metadata


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One file that the source's selection wants, as its tree lists it."""

    path: str  # POSIX, relative to the tree's root; see `decode_path`
    size_bytes: int
    revision: str
    locator: str
    skip: str | None = None  # a reason not to read it
    variant: str = ""  # its blob, where only further branches have it; see `build_variant_uri`


@dataclass(frozen=True, slots=True)
class FileContent:
    """One file, read."""

    payload: bytes
    author: str | None
    last_modified: datetime | None
    metadata: Metadata = field(default_factory=dict[str, Any])


class FileTree(Protocol):
    """Files below one root, symbolic links never followed."""

    def list_entries(self) -> Iterator[FileEntry]:
        """Every wanted file, each once; errors as `Source.discover`."""
        ...

    def read_head(self, entry: FileEntry, limit_bytes: int) -> bytes:
        """The first bytes of a listed file; DocumentSkipped where it cannot be read."""
        ...

    def read(self, path: str, locator: str, limit_bytes: int) -> FileContent:
        """A whole file, from what its entry said; errors as `Source.fetch`.

        A file of more than `limit_bytes` is skipped.
        """
        ...

    def close(self) -> None:
        """Free what was opened."""


FORMAT_VERSION = "1"  # of the documents that `FileSource` makes
_NAMES_VERSION = "1"  # of the languages of templates, and of files whose names are of none
HEAD_BYTES = 65_536
_FIRST_LINE_BYTES = 256
# https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md
LFS_POINTER_START = b"version https://git-lfs.github.com/spec/v1\n"

_MAX_REMEMBERED_ITEMS = 100_000  # of a listing, some 30 MB

EntryFilter = Callable[[FileEntry], bool]
FileReader = Callable[[str, bytes], ExtractedText]
"""From a file's name and bytes to its text; raises DocumentSkipped."""

NewestCommits = dict[str, tuple[int, str]]
"""Path to (seconds since 1970, commit id); (0, "") where the history does not tell."""


class CachedCommits(NamedTuple):
    """What a file of newest commits holds; never changed."""

    stamp: tuple[int, ...]  # of the file, which is replaced, not written again
    tip: str
    commits: NewestCommits
    unsaved: int = 0  # paths that were touched since the file was written
    grafts: frozenset[str] = frozenset()  # commits whose parents a shallow clone lacks


Outline = Any
"""Of a file, the keys near its top that lead to references: a mapping of outlines, a reference, or None."""


@dataclass(slots=True)
class FileScan:
    """What a file says before anything is followed."""

    is_specification: bool
    references: tuple[str, ...]  # to other files, as written
    outline: Outline = None  # read when it is asked for
    title: str = ""
    has_outline: bool = False


@dataclass(slots=True)
class SpecificationFile:
    """A file of a specification."""

    entry: FileEntry
    whole: FileEntry  # the specification that it is, or is a part of
    title: str
    # paths of keys in it, with where each is in the whole
    places: dict[tuple[str, ...], tuple[str, ...]] = field(default_factory=lambda: {})


@dataclass(slots=True)
class SpecificationListing:
    """What a listing found, for those who read its files and for the next listing."""

    scans: dict[tuple[str, str], FileScan] = field(default_factory=dict[tuple[str, str], FileScan])
    files: dict[str, FileEntry] = field(default_factory=dict[str, FileEntry])  # by path
    members: dict[tuple[str, str], SpecificationFile] = field(
        default_factory=dict[tuple[str, str], SpecificationFile]
    )


@dataclass(slots=True)
class ListingMemory:
    """What a listing leaves to the next one of the same configuration: most files stay the same."""

    selection: FileSelection | None = None  # which has judged most paths
    commits: dict[Path, CachedCommits] = field(default_factory=lambda: {})
    newest: NewestCommits = field(default_factory=lambda: {})  # when `entries` were listed
    entries: dict[bytes, FileEntry | LeftOut | None] = field(
        default_factory=lambda: {}
    )  # of lines of `git ls-tree`
    items: dict[int, tuple[FileEntry, Item | None]] = field(default_factory=lambda: {})  # by ids of entries
    specifications: SpecificationListing | None = None

    def count_bytes(self) -> int:
        """What it takes, about."""
        judged = self.selection.judged_paths if self.selection else 0
        commits = sum(len(cached.commits) for cached in self.commits.values())
        scans = len(self.specifications.scans) if self.specifications else 0
        rows = 500 * len(self.entries) + 300 * len(self.items) + 1000 * scans
        return 150 * judged + 250 * commits + rows


@dataclass(frozen=True, slots=True)
class FileSource(Source):
    """The wanted files of one tree, one document each."""

    tree: FileTree
    accepts: EntryFilter  # called for every wanted file that is not skipped
    extract: FileReader
    version_of: Callable[[str], str]  # by extension: changes whenever the same bytes may give another text
    max_bytes: int
    close_reader: Callable[[], None] = lambda: None
    list_branches: Callable[[], tuple[str, ...]] = tuple  # see `branches`
    find_tip: Callable[[], str | None] = lambda: None  # see `revision`
    list_notes: Callable[[], Counter[str]] = Counter  # what its tree could not tell
    memory: ListingMemory | None = None  # for trees that list the same entries again
    selection: FileSelection | None = None  # which knows what the last listing left out

    def close(self) -> None:
        """Free what was opened."""
        self.tree.close()
        self.close_reader()

    @property
    def revision(self) -> str | None:
        """See `Source.revision`."""
        return self.find_tip()

    @property
    def branches(self) -> tuple[str, ...]:
        """Of a repository, the names of the further branches that the last listing covered."""
        return self.list_branches()

    @property
    def notes(self) -> Counter[str]:
        """What the last listing left out, counted: 12 "files of other formats (9 .msg, 3 .doc)"."""
        return self.list_notes() + (
            self.selection.describe_left_out("file") if self.selection else Counter[str]()
        )

    def discover(self) -> Iterator[Item]:
        """Every wanted file with its revision; too large ones, links and submodules as skipped."""
        if self.selection:
            self.selection.left_out.clear()
        versions, listed = dict[str, str](), dict[int, tuple[FileEntry, Item | None]]()
        earlier = self.memory.items if self.memory else {}
        for entry in self.tree.list_entries():
            listing = earlier.get(id(entry))
            if listing is None or listing[0] is not entry:
                listing = entry, self._list_entry(entry, versions)
            if self.memory:
                listed[id(entry)] = listing
            if listing[1] is not None:
                yield listing[1]
            elif self.selection and entry.size_bytes > MAX_PLAIN_TEXT_BYTES and not entry.variant:
                self.selection.count_left_out(entry.path, too_large=True)
        if self.memory:
            self.memory.items = listed if len(listed) <= _MAX_REMEMBERED_ITEMS else {}

    def fetch(self, item: Item) -> Document:
        """Read one file; DocumentSkipped with the reason where it cannot be a document."""
        path = uri_to_path(item.uri)
        content = self.tree.read(path, item.locator, self.max_bytes)
        if len(content.payload) < 1024 and content.payload.startswith(LFS_POINTER_START):
            raise DocumentSkipped("Git LFS pointer; the content is not in the repository")
        name = format_path(path)
        extracted = self.extract(name, content.payload)
        return Document(
            uri=item.uri,
            text=extracted.text,
            path=name,
            title=extracted.title or name.rpartition("/")[2],
            language=extracted.language,
            author=extracted.author or content.author,
            last_modified=extracted.last_modified or content.last_modified,
            metadata={**extracted.metadata, **content.metadata},
        )

    def _list_entry(self, entry: FileEntry, versions: dict[str, str]) -> Item | None:
        """The item of an entry; `versions` are those of extensions so far."""
        path, skip = entry.path, entry.skip
        try:
            if skip is None and not self.accepts(entry):
                return None
        except DocumentSkipped as reason:
            skip = str(reason)
        if skip is None and entry.size_bytes == 0:
            skip = "empty"
        elif skip is None and entry.size_bytes > self.max_bytes:
            skip = format_too_large(entry.size_bytes, self.max_bytes)
        if skip and entry.variant:  # what cannot be read is a variant of nothing
            return None
        extension = path[path.rfind(".") :]
        if (version := versions.get(extension)) is None:
            version = versions[extension] = self.version_of(path)
        uri = build_variant_uri(path, entry.variant) if entry.variant else path_to_uri(path)
        return Item(uri, f"{entry.revision}:{version}", entry.locator, skip)


def text_version(path: str) -> str:
    """Changes whenever `read_text` may give another document for the same bytes; by extension."""
    version, language = f"{FORMAT_VERSION}.{DECODING_VERSION}", detect_language(path)
    if language is None or language in TEMPLATE_LANGUAGES:
        return f"{version}+names{_NAMES_VERSION}"
    if path.lower().endswith(".txt") or language in ("markdown", "rst"):
        return f"{version}+title{TITLES_VERSION}"  # the content of a text tells whether it is one of these
    if is_code(language):
        version += f"+code{BYTES_PER_ERROR_IN_CODE}"
    return f"{version}+{NOTEBOOK_VERSION}" if is_notebook(path) else version


def read_text(name: str, payload: bytes, encoding: str | None = None) -> ExtractedText:
    """Text files: decoded, with the language that name and content tell."""
    if is_notebook(name):
        return read_notebook(payload)
    bytes_per_error = BYTES_PER_ERROR_IN_CODE if is_code(detect_language(name)) else BYTES_PER_ERROR
    text, note = decode_text(payload, encoding, bytes_per_error=bytes_per_error)
    language = detect_language(name, text)
    return ExtractedText(text, extract_title(name, text, language), add_note({}, note), language=language)


def build_filter(type: str, tree: FileTree, selection: FileSelection) -> EntryFilter:
    """Which wanted files a source type lists: where names do not tell, their beginnings do."""

    def read_start(entry: FileEntry, limit_bytes: int) -> str:
        return tree.read_head(entry, limit_bytes).decode("utf-8", "replace")

    def is_code_file(entry: FileEntry) -> bool:
        """By name and size, or a script by its first line."""
        is_large = entry.size_bytes > MAX_PLAIN_TEXT_BYTES
        if (is_large or selection.languages) and selection.is_script_candidate(entry.path):
            language = detect_language(entry.path, read_start(entry, _FIRST_LINE_BYTES))
            return is_code(language) and (not selection.languages or language in selection.languages)
        return not (is_large and selection.is_plain_text(entry.path))

    def is_markup(entry: FileEntry) -> bool:
        """By name, or a text file of documentation by its first 64 KiB."""
        if not selection.is_markup_candidate(entry.path):
            return True
        return detect_language(entry.path, read_start(entry, HEAD_BYTES)) == "rst"

    filters = {"code": is_code_file, "markdown": is_markup}
    return filters.get(type, lambda entry: True)


SUBMODULE_REASON = "git submodule; declare it as a source of its own"
NOT_REGULAR_REASON = "not a regular file"
SYMLINK_REASON = "symbolic link, not followed"
_PERMANENT_ERRNOS = frozenset({errno.EACCES, errno.EPERM, errno.ENAMETOOLONG, errno.ENOTDIR, errno.ELOOP})


class LocalTree:
    """The files of a folder as they are now; `.gitignore` files are honoured, and nothing is cached."""

    def __init__(self, root: Path, selection: FileSelection) -> None:
        self._root = root.expanduser().absolute()
        self._selection = selection
        self._tracked = frozenset[str]()  # by git, although rules ignore it

    def list_entries(self) -> Iterator[FileEntry]:
        """Every wanted file, folder by folder, sorted by name."""
        if not self._root.is_dir():
            problem = "is not a folder" if self._root.exists() else "does not exist"
            raise SourceRefused(f"the folder {self._root} {problem}: correct connection.path")
        self._tracked = list_tracked_ignored(self._root)
        pending: list[tuple[str, RuleStack]] = [("", load_root_rules(self._root.resolve()))]
        while pending:
            folder, rules = pending.pop()
            entries = self._scan_folder(folder)
            names = decode_path(b"/".join([entry.name for entry in entries])).split("/")
            if folder and ".gitignore" in names:
                rules = load_folder_rules(Path(os.fsdecode(self._encode_location(folder))), folder, rules)
            below: list[tuple[str, RuleStack]] = []
            for entry, name in zip(entries, names, strict=False):  # of an empty folder one name
                path = f"{folder}/{name}" if folder else name
                if not entry.is_dir(follow_symlinks=False):
                    yield from self._to_entries(entry, path, rules)
                elif self._is_ignored(f"{path}/", rules):
                    continue
                elif self._selection.is_pruned(path):
                    self._selection.count_unlisted(path)
                else:
                    if os.path.lexists(self._encode_location(f"{path}/.git")):
                        yield FileEntry(path, 0, "submodule", "", SUBMODULE_REASON)
                    else:
                        below.append((path, rules))
            pending.extend(reversed(below))

    def read_head(self, entry: FileEntry, limit_bytes: int) -> bytes:
        """The first bytes of a file; DocumentSkipped where it cannot be opened."""
        try:
            with os.fdopen(self._open_file(entry.path), "rb") as file:
                return file.read(limit_bytes)
        except OSError as error:
            raise DocumentSkipped(_unreadable_reason(error)) from error

    def read(self, path: str, locator: str, limit_bytes: int) -> FileContent:
        """A whole file; its last change as the file system has it, its author unknown."""
        try:
            with os.fdopen(self._open_file(path), "rb") as file:
                status = os.fstat(file.fileno())
                if not stat.S_ISREG(status.st_mode):
                    raise DocumentSkipped(NOT_REGULAR_REASON)
                payload = file.read(limit_bytes + 1)
        except OSError as error:
            raise DocumentSkipped(_unreadable_reason(error)) from error
        if len(payload) > limit_bytes:
            raise DocumentSkipped(format_too_large(max(status.st_size, len(payload)), limit_bytes))
        return FileContent(payload, None, datetime.fromtimestamp(status.st_mtime, UTC))

    def close(self) -> None:
        """Nothing is kept open."""

    def _scan_folder(self, folder: str) -> list[os.DirEntry[bytes]]:
        location = self._encode_location(folder)
        try:
            with os.scandir(location) as entries:
                return sorted(entries, key=attrgetter("name"))
        except OSError as error:
            shown = os.fsencode(self._root / folder).decode("utf-8", "replace")
            why = error.strerror or "input/output error"
            if error.errno in _PERMANENT_ERRNOS:
                raise SourceRefused(
                    f"the folder {shown} cannot be listed ({why}): make it readable, or exclude it"
                ) from error
            raise SourceUnavailable(f"listing the folder {shown} failed ({why}): try again later") from error

    def _to_entries(self, dir_entry: os.DirEntry[bytes], path: str, rules: RuleStack) -> Iterator[FileEntry]:
        if dir_entry.is_symlink():
            if self._selection.is_plain_text(path):
                if not self._is_ignored(path, rules):
                    self._selection.count_left_out(path, is_link=True)
                return
            with suppress(OSError):  # a loop of links, or one whose end we may not see
                if dir_entry.is_dir():
                    return
        executable = "." not in path.rpartition("/")[2] and _is_executable(dir_entry)
        accepted = self._selection.accepts(path, executable=executable)
        if not (accepted or self._selection.counts_formats) or self._is_ignored(path, rules):
            return
        if not accepted:
            return self._selection.count_left_out(path)
        try:
            status = dir_entry.stat(follow_symlinks=False)
        except FileNotFoundError:  # removed since its folder was read
            return
        revision = f"{status.st_mtime_ns}-{status.st_size}-{status.st_ctime_ns}"
        skip = None if stat.S_ISREG(status.st_mode) else NOT_REGULAR_REASON
        skip = SYMLINK_REASON if stat.S_ISLNK(status.st_mode) else skip
        yield FileEntry(path, status.st_size, revision, "", skip)

    def _is_ignored(self, path: str, rules: RuleStack) -> bool:
        return is_ignored(path, rules) and path not in self._tracked

    def _open_file(self, path: str) -> int:
        flags = os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        return os.open(self._encode_location(path), flags)

    def _encode_location(self, path: str) -> bytes:
        return os.fsencode(self._root) + (b"/" + encode_path(path) if path else b"")


def _is_executable(dir_entry: os.DirEntry[bytes]) -> bool:
    with suppress(FileNotFoundError):
        mode = dir_entry.stat(follow_symlinks=False).st_mode
        return stat.S_ISREG(mode) and bool(mode & 0o111)
    return False


def _unreadable_reason(error: OSError) -> str:
    if error.errno in {errno.ENOENT, errno.ENOTDIR}:
        return DELETED_REASON
    if error.errno == errno.ELOOP:
        return SYMLINK_REASON
    return f"cannot be read ({error.strerror or 'input/output error'})"


class IgnoreRules(NamedTuple):
    """The rules of one `.gitignore` file, as they hold in one folder of a walk.

    Nothing below an ignored folder can be brought back, but for what git tracks: see `list_tracked_ignored`.
    """

    spec: GitIgnoreSpec
    folder_prefix: str = ""  # the rules' folder, seen from the walk's root: "src/"
    root_prefix: str = ""  # the walk's root, seen from a rules' folder above it: "packages/one/"


RuleStack = tuple[IgnoreRules, ...]
"""All that hold in one folder: its own before those from above it."""


def is_ignored(path: str, rules: RuleStack) -> bool:
    """Whether a file, or a folder (with a slash at its end), is ignored."""
    for rule in rules:
        seen = rule.root_prefix + path.removeprefix(rule.folder_prefix)
        if (verdict := rule.spec.check_file(seen).include) is not None:
            return verdict
    return False


def load_root_rules(root: Path) -> RuleStack:
    """The rules that hold in the folder where a walk begins, those of the repository around it included.

    Unless they ignore the folder itself: it was asked for by name.
    """
    rules: RuleStack = ()
    folders = [root, *root.parents]
    repository = next((at for at, folder in enumerate(folders) if (folder / ".git").exists()), 0)
    for folder in folders[repository:0:-1]:  # those above `root` in the same repository, outermost first
        rules = _load_rules_of(folder, root_prefix=f"{root.relative_to(folder).as_posix()}/") + rules
        if is_ignored("", rules):
            rules = ()
            break
    return _load_rules_of(root) + rules


def load_folder_rules(folder: Path, path: str, outer: RuleStack) -> RuleStack:
    """The rules that hold in a folder of the walk, given those of the folder above."""
    spec = _load_spec(folder / ".gitignore")
    return outer if spec is None else (IgnoreRules(spec, folder_prefix=f"{path}/"), *outer)


def _load_rules_of(folder: Path, *, root_prefix: str = "") -> RuleStack:
    specs = (_load_spec(folder / name) for name in (".gitignore", ".git/info/exclude"))
    return tuple(IgnoreRules(spec, root_prefix=root_prefix) for spec in specs if spec is not None)


def _load_spec(file: Path) -> GitIgnoreSpec | None:
    """The rules of one file; None if there is none, or a symbolic link, which git passes over too."""
    try:
        if file.is_symlink() or not file.is_file():
            return None
        text = file.read_bytes().decode("utf-8-sig", "surrogateescape")
    except OSError as error:
        raise SourceRefused(
            f"{file} cannot be read ({error.strerror}), so what it ignores is not known: make it readable"
        ) from error
    return GitIgnoreSpec.from_lines(_iter_valid_lines(text))


def _iter_valid_lines(text: str) -> Iterator[str]:
    """The lines that are patterns; git passes over the others without a word."""
    for line in text.split("\n"):
        try:
            GitIgnoreSpec.from_lines([line.removesuffix("\r")])
        except ValueError:
            continue
        yield line.removesuffix("\r")


_REF_ENTRIES = frozenset({"HEAD", "packed-refs", "refs", "reftable", "worktrees"})
_HEAD_LOG = ".git/logs/HEAD"  # git adds a line when HEAD moves: files that did not change have other dates


def find_watched_folder(source: SourceConfig) -> Path | None:
    """The folder whose changes concern a source; None if it is not read on this machine.

    For a history that is the repository's own folder, wherever the checkout lies.
    """
    if not isinstance(source.connection, LocalConnection):
        return None
    folder = source.connection.path.expanduser().absolute()
    if source.type == "git_history":
        with suppress(SourceRefused, OSError):  # there is no repository yet
            return find_git_folder(folder)
    return folder


def is_affected_by(
    source: SourceConfig,
    folder: Path,
    changed: Iterable[str],
    *,
    store: Path,
    was_document: Callable[[str], bool],
) -> bool:
    """Whether any of the changed paths may change what a source lists.

    Cheap and generous: only `.gitignore` files are read, and a refresh knows what really changed.

    Args:
        folder: that of `find_watched_folder`.
        changed: absolute paths of files and folders in it that came, changed or went.
        store: a folder that never concerns it: our own tables may lie inside.
        was_document: whether a path in the folder was, or contained, a document; asked of what is gone.
    """
    outside = (Path(path) for path in changed)
    paths = [path for path in outside if not path.is_relative_to(store)]
    if source.type == "git_history":
        return any(_is_ref_change(path.relative_to(folder)) for path in paths)
    of_folder = _FolderView(folder, build_selection(source), was_document)
    affecting = (source.metadata.coverage, folder / _HEAD_LOG)
    return any(path in affecting or of_folder.is_affected_by(path) for path in paths)


class _FolderView:
    """One folder as one source sees it; the rules are read once."""

    def __init__(self, root: Path, selection: FileSelection, was_document: Callable[[str], bool]) -> None:
        self._root, self._selection, self._was_document = root, selection, was_document
        self._cached_rules = cache(self._load_rules)
        self._list_tracked = cache(lambda: list_tracked_ignored(root))
        self._is_excluded = cache(self._compute_is_excluded)

    def is_affected_by(self, location: Path) -> bool:
        path = location.relative_to(self._root).as_posix()
        if path == ".":  # the folder itself came or went
            return True
        folder, _, name = path.rpartition("/")
        if self._is_excluded(folder):
            return False
        try:
            mode = location.lstat().st_mode
        except OSError:
            return name == ".gitignore" or self._was_document(path)
        if stat.S_ISDIR(mode):
            return not self._is_excluded(path)
        accepted = self._selection.accepts(path, executable=bool(mode & 0o111))
        return name == ".gitignore" or (accepted and not self._is_ignored(path, folder))

    def _compute_is_excluded(self, folder: str) -> bool:
        """Whether nothing in a folder is taken: a pattern or a rule leaves it out, or one around it."""
        if not folder:
            return False
        above = folder.rpartition("/")[0]
        ignored = self._selection.is_pruned(folder) or self._is_excluded(above)
        return ignored or self._is_ignored(f"{folder}/", above)

    def _is_ignored(self, path: str, folder: str) -> bool:
        return is_ignored(path, self._cached_rules(folder)) and path not in self._list_tracked()

    def _load_rules(self, folder: str) -> RuleStack:
        if not folder:
            return load_root_rules(self._root.resolve())
        return load_folder_rules(self._root / folder, folder, self._cached_rules(folder.rpartition("/")[0]))


def _is_ref_change(path: Path) -> bool:
    parts = path.parts[path.parts.index(".git") + 1 :] if ".git" in path.parts else path.parts
    return not parts or (parts[0] in _REF_ENTRIES and not path.name.endswith(".lock"))


ORIGINAL_KEY = "original"
"""Key of a document's metadata. It may hold what a sanitizer would take out: not for chunks."""

_BYTE_ORDER_MARKS = {
    "utf-8": codecs.BOM_UTF8,
    "utf-32-le": codecs.BOM_UTF32_LE,
    "utf-32-be": codecs.BOM_UTF32_BE,
    "utf-16-le": codecs.BOM_UTF16_LE,
    "utf-16-be": codecs.BOM_UTF16_BE,
}


def build_original_metadata(text: str, payload: bytes) -> dict[str, Any]:
    """Metadata from which `restore_original_bytes` makes `payload` of `text`.

    Empty for the usual file (UTF-8, no mark, "\\n"), a few words for a file that is regular in another way,
    else the file itself.
    """
    ways: list[dict[str, Any]] = [{}, {ORIGINAL_KEY: {"newlines": "crlf"}}]
    for encoding, mark in _BYTE_ORDER_MARKS.items():
        if payload.startswith(mark):
            ways += [{ORIGINAL_KEY: {"encoding": encoding, "newlines": ends}} for ends in ("lf", "crlf")]
    for way in ways:
        if restore_original_bytes(text, way) == payload:
            return way
    packed = base64.b85encode(zlib.compress(payload, 9)).decode("ascii")
    return {ORIGINAL_KEY: {"bytes": packed}}  # zlib, base 85


def restore_original_bytes(document_text: str, metadata: Metadata) -> bytes:
    """The bytes of the file that a document was read from, by its text and its metadata."""
    original: dict[str, Any] = metadata.get(ORIGINAL_KEY, {})
    if "bytes" in original:
        return zlib.decompress(base64.b85decode(original["bytes"]))
    text = document_text.replace("\n", "\r\n") if original.get("newlines") == "crlf" else document_text
    encoding = original.get("encoding")
    return text.encode() if encoding is None else _BYTE_ORDER_MARKS[encoding] + text.encode(encoding)

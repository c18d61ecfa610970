"""Which files a source takes: the defaults of its type, then the user's patterns.

`include`, when given, replaces the default choice by name. `exclude` adds to the folders
and files that are left out by default; `!vendor/` in it brings one of those back.
Of commits and pull requests, the same patterns tell by the files that each changes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from posixpath import splitext
from typing import Literal

from pathspec import GitIgnoreSpec

from knowledge_pipeline.config.connections import WikiConnection
from knowledge_pipeline.config.sources import AttachmentSettings, SourceConfig
from knowledge_pipeline.contract.filters import SourceType
from knowledge_pipeline.errors import ConfigError
from knowledge_pipeline.file_languages import (
    LANGUAGES,
    PARSED_LANGUAGES,
    detect_language,
    is_code,
    list_possible_languages,
)
from knowledge_pipeline.records import hash_strings

ALWAYS_EXCLUDED = frozenset({".git", ".knowledge"})
_MAX_ENDING_CHARS, _MAX_FORMATS, _MAX_FORMATS_SHOWN = 20, 500, 8
MAX_JUDGED_PATHS = 200_000  # that one selection remembers, some 30 MB

_TOOL_FOLDERS = frozenset(
    (
        *(".hg", ".svn", "node_modules", "bower_components", "__pycache__", ".venv", "venv", ".tox", ".nox"),
        *("site-packages", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".terraform", ".gradle"),
    )
)
_VENDORED_FOLDERS = _TOOL_FOLDERS | {"vendor", "third_party"}
_GENERATED_CODE = re.compile(
    r"(?:[.-]min\.(?:js|mjs|cjs|css)|\.bundle\.js|^pnpm-lock\.yaml|^conda-lock\.yml|^\.terraform\.lock\.hcl"
    r"|^knowledge\.yaml)$"  # our own configuration says where content is, and answers nothing
)
# names where modules lie
_OTHER_CODE_FILE = re.compile(r"^(?:package|composer|[jt]sconfig(?:\.[\w-]+)?)\.json$|\.ipynb$")
_MARKUP_FILE = re.compile(
    r"\.(?:md|markdown|mdx|rst)$|^readme(?:$|\.txt$|[._-][a-z]{2}(?:[_-][a-z]{2})?$)", re.I
)
_TEXT_OF_DOCUMENTATION = re.compile(r"(?:^|/)(?:docs?|documentation)/(?:.*/)?[^/]*\.txt$", re.I | re.S)
_WIKI_PAGE = re.compile(
    r"\.(?:md|markdown|mdx|mkdn?|mdown|rst|rest|adoc|asc|asciidoc|org|textile|mediawiki|wiki|creole|rdoc|pod"
    r"|txt)$",
    re.I,
)
_STRUCTURED_FILE = re.compile(r"\.(?:ya?ml|json)$", re.IGNORECASE)
_RECORD_FILE = re.compile(r"\.(?:md|markdown|mdx|rst|txt|json|jsonl|ndjson)$", re.IGNORECASE)
_OFFICE_DOCUMENT = re.compile(
    r"\.(?:pdf|do[ct][xm]|(?:pp[ts]|pot)[xm]|xls[xmb]?|o[dt][tsp]|rtf|epub|csv|tsv|eml|mbox|x?html?|txt)$",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class SelectionDefaults:
    """What a source type takes when its configuration does not say."""

    accepts: Callable[[str], object]  # of a file name; true for what is taken
    max_bytes: int
    excluded_folders: frozenset[str]
    excluded_files: re.Pattern[str] | None = None


def _accepts_code(name: str) -> bool:
    return is_code(detect_language(name)) or _OTHER_CODE_FILE.search(name) is not None


def _accepts_markup(name: str) -> bool:
    return _MARKUP_FILE.search(name) is not None and not is_code(detect_language(name))


SELECTION_DEFAULTS: dict[SourceType | Literal["wiki"], SelectionDefaults] = {
    "code": SelectionDefaults(_accepts_code, 1_000_000, _VENDORED_FOLDERS | {"dist"}, _GENERATED_CODE),
    "markdown": SelectionDefaults(_accepts_markup, 1_000_000, _VENDORED_FOLDERS),
    "wiki": SelectionDefaults(_WIKI_PAGE.search, 1_000_000, _TOOL_FOLDERS),
    "openapi": SelectionDefaults(_STRUCTURED_FILE.search, 5_000_000, _VENDORED_FOLDERS),
    "archive": SelectionDefaults(_RECORD_FILE.search, 5_000_000, _TOOL_FOLDERS),
    "files": SelectionDefaults(_OFFICE_DOCUMENT.search, 50_000_000, _TOOL_FOLDERS),
}


@dataclass(slots=True)
class FileSelection:
    """The files that one source takes, by path alone. Remembers what it has judged."""

    defaults: SelectionDefaults
    include: GitIgnoreSpec | None
    exclude: GitIgnoreSpec
    languages: frozenset[str]
    accepts_scripts: bool  # whether a program without an extension may be wanted for its first line
    accepts_markup: bool = False  # whether a text file of documentation may be wanted for the markup in it
    counts_formats: bool = False  # whether a file that is not taken may be in a format that is not read
    other_formats: Counter[str] = field(default_factory=Counter[str])  # of such files, by their endings
    _pruned_by_folder: dict[str, bool] = field(default_factory=lambda: {"": False})
    _accepted: dict[tuple[str, bool], bool] = field(default_factory=dict[tuple[str, bool], bool])

    @property
    def judged_paths(self) -> int:
        """How many paths it remembers."""
        return len(self._accepted) + len(self._pruned_by_folder)

    def is_pruned(self, folder: str) -> bool:
        """Whether nothing below this folder, or below one that holds it, is taken."""
        pruned = self._pruned_by_folder.get(folder)
        if pruned is None:
            pruned, end = False, 0
            while not pruned and end >= 0:
                end = folder.find("/", end + 1)
                pruned = self._is_folder_pruned(folder if end < 0 else folder[:end])
        return pruned

    def accepts(self, path: str, *, executable: bool = False) -> bool:
        """Whether the file is taken, its folders not looked at.

        True also where its first lines have to tell (`is_script_candidate`, `is_markup_candidate`).
        """
        accepted = self._accepted.get((path, executable))
        if accepted is None:
            if len(self._accepted) >= MAX_JUDGED_PATHS:
                self._accepted.clear()
            accepted = self._accepted[path, executable] = self._judge(path, executable=executable)
        return accepted

    def _judge(self, path: str, *, executable: bool) -> bool:
        name = path.rpartition("/")[2]
        if name in ALWAYS_EXCLUDED:
            return False
        if self.include is not None:
            is_included = self.include.match_file(path)
        else:
            is_script = executable and self.is_script_candidate(name)
            is_markup = self.accepts_markup and self.is_markup_candidate(path)
            is_included = is_script or is_markup or self.defaults.accepts(name)
        if not is_included:
            return False
        languages = list_possible_languages(name) if self.languages else frozenset[str]()
        if languages and not languages & self.languages:
            return False
        return not self._is_excluded(path, name)

    def is_script_candidate(self, path: str) -> bool:
        """Whether only the first line of a wanted file can tell if it is code."""
        name = path.rpartition("/")[2]
        return self.accepts_scripts and "." not in name and detect_language(name) is None

    def is_markup_candidate(self, path: str) -> bool:
        """Whether only the first lines of a wanted file can tell if it is markup: Sphinx reads `.txt` too."""
        is_text = self.accepts_markup and _TEXT_OF_DOCUMENTATION.search(path) is not None
        return is_text and not self.defaults.accepts(path.rpartition("/")[2])

    def count_other_format(self, path: str) -> None:
        """Note that a file is not taken, where only its format is the reason."""
        name = path.rpartition("/")[2]
        if not self.counts_formats or self.defaults.accepts(name) or name.startswith("."):
            return
        if not self._is_excluded(path, name):
            ending = splitext(name)[1].lower()[:_MAX_ENDING_CHARS] or "without an ending"
            is_named = ending in self.other_formats or len(self.other_formats) < _MAX_FORMATS
            self.other_formats[ending if is_named else "of further formats"] += 1

    def describe_other_formats(self, what: str) -> Counter[str]:
        """Files not taken for their format, counted: 12 "files of other formats (9 .msg, 3 .doc)"."""
        if not (count := self.other_formats.total()):
            return Counter()
        shown = [
            f"{number:,} {ending}" for ending, number in self.other_formats.most_common(_MAX_FORMATS_SHOWN)
        ]
        if len(self.other_formats) > len(shown):
            shown.append(f"{len(self.other_formats) - len(shown):,} more")
        kind = f"{what} of another format" if count == 1 else f"{what}s of other formats"
        return Counter({f"{kind} ({', '.join(shown)})": count})

    def _is_folder_pruned(self, folder: str) -> bool:
        pruned = self._pruned_by_folder.get(folder)
        if pruned is None:
            name = folder.rpartition("/")[2]
            pruned = name in ALWAYS_EXCLUDED or self._is_excluded(f"{folder}/", name)
            self._pruned_by_folder[folder] = pruned
        return pruned

    def _is_excluded(self, path: str, name: str) -> bool:
        verdict = self.exclude.check_file(path).include
        if verdict is not None:
            return verdict
        if path.endswith("/"):
            return name in self.defaults.excluded_folders
        left_out = self.defaults.excluded_files
        return left_out is not None and left_out.search(name) is not None


def build_selection(source: SourceConfig) -> FileSelection:
    """The files that a source takes. Raises ConfigError: a pattern is not gitignore's, a language unknown."""
    for name in source.languages:
        if name not in LANGUAGES:
            near = get_close_matches(name.lower(), LANGUAGES, n=3, cutoff=0.5) or sorted(PARSED_LANGUAGES)
            raise ConfigError(
                f"source {source.id!r}: languages has {name!r}, which is not known: "
                f"did you mean {', '.join(near)}?"
            )
    _require_valid_patterns(source.id, "include", source.include)
    _require_valid_patterns(source.id, "exclude", source.exclude)
    languages = frozenset(source.languages) if source.type == "code" else frozenset[str]()
    kind = "wiki" if isinstance(source.connection, WikiConnection) else source.type
    return _build_selection(kind, tuple(source.include), tuple(source.exclude), languages)


def build_attachment_selection(source_id: str, settings: AttachmentSettings) -> FileSelection:
    """The attachments that are taken, by name: the formats of type `files`, or as the patterns say."""
    _require_valid_patterns(source_id, "attachments.include", settings.include)
    _require_valid_patterns(source_id, "attachments.exclude", settings.exclude)
    return _build_selection("files", settings.include, settings.exclude, frozenset[str]())


def _build_selection(
    source_type: SourceType | Literal["wiki"],
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    languages: frozenset[str],
) -> FileSelection:
    return FileSelection(
        defaults=SELECTION_DEFAULTS[source_type],
        include=GitIgnoreSpec.from_lines(include) if include else None,
        exclude=GitIgnoreSpec.from_lines(exclude),
        languages=languages,
        accepts_scripts=source_type == "code" and not include,
        accepts_markup=source_type == "markdown" and not include,
        counts_formats=source_type == "files" and not include,
    )


@dataclass(frozen=True, slots=True)
class ChangedPaths:
    """Which commits or pull requests are taken, by the files that each changes."""

    include: GitIgnoreSpec | None
    exclude: GitIgnoreSpec
    digest: str  # changes with the patterns

    def accepts(self, paths: Iterable[str]) -> bool:
        """Whether any of the changed files is wanted."""
        return any(
            (self.include is None or self.include.match_file(path)) and not self.exclude.match_file(path)
            for path in paths
        )


def build_changed_paths(source: SourceConfig) -> ChangedPaths | None:
    """The patterns of a source of commits or pull requests; None where it has none."""
    if not source.include and not source.exclude:
        return None
    _require_valid_patterns(source.id, "include", source.include)
    _require_valid_patterns(source.id, "exclude", source.exclude)
    include = GitIgnoreSpec.from_lines(source.include) if source.include else None
    digest = hash_strings(*source.include, "", *source.exclude)[:8]
    return ChangedPaths(include, GitIgnoreSpec.from_lines(source.exclude), digest)


def _require_valid_patterns(source_id: str, key: str, patterns: Sequence[str]) -> None:
    for pattern in patterns:
        try:
            GitIgnoreSpec.from_lines([pattern])
        except ValueError as error:
            raise ConfigError(
                f"source {source_id!r}: {key} has the pattern {pattern!r}, "
                f"which is not gitignore syntax ({error})"
            ) from error

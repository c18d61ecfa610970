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
from typing import Literal, NamedTuple

from pathspec import GitIgnoreSpec

from knowledge_pipeline.config.connections import WikiConnection
from knowledge_pipeline.config.sources import AttachmentSettings, SourceConfig
from knowledge_pipeline.contract.filters import SourceType
from knowledge_pipeline.errors import ConfigError
from knowledge_pipeline.file_languages import (
    LANGUAGES,
    PARSED_LANGUAGES,
    VENDORED_FOLDERS,
    detect_language,
    is_code,
    is_package,
    is_tsconfig,
    list_possible_languages,
)
from knowledge_pipeline.records import hash_strings

ALWAYS_EXCLUDED = frozenset({".git", ".knowledge"})
_MAX_ENDING_CHARS, _MAX_NAMED, _MAX_SHOWN = 20, 500, 8
MAX_JUDGED_PATHS = 200_000  # that one selection remembers, some 30 MB
MAX_PLAIN_TEXT_BYTES = 100_000  # of a file of code that no language takes, and of XML: larger ones are data

_TOOL_FOLDERS = frozenset(
    (
        *(".hg", ".svn", "node_modules", "bower_components", "__pycache__", ".venv", "venv", ".tox", ".nox"),
        *("site-packages", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".terraform", ".gradle"),
    )
)
_GENERATED_CODE = re.compile(
    r"(?:[.-]min\.(?:js|mjs|cjs|css)|\.bundle\.js|^pnpm-lock\.yaml|^conda-lock\.yml|^\.terraform\.lock\.hcl"
    r"|^knowledge\.yaml)$"  # our own configuration says where content is, and answers nothing
)
# names where modules lie
_OTHER_CODE_FILE = re.compile(
    r"^(?:package|composer)\.json$|\.ipynb$|^(?:requirements|constraints)[\w.-]*\.txt$"
)
# Of no language, and surely not to be read as text: other files of unknown names are told by their content.
_DATA_FILE = re.compile(
    r"\.(?:png|jpe?g|gif|bmp|ico|icns|webp|avif|tiff?|heic|psd|ai|eps|sketch|fig|svgz?|drawio|ttf|otf|woff2?|eot|mp[34]"
    r"|m4[av]|wav|ogg|oga|flac|webm|mov|avi|mkv|zip|gz|tgz|bz2|xz|zst|7z|rar|tar|jar|war|aar|apk|nupkg|whl|deb|rpm"
    r"|dmg|iso|so|dll|dylib|exe|obj|[ao]|lib|pyc|class|wasm|pdb|bin|dat|db|sqlite3?|keystore|jks|p12|pfx|jwk|snk|docx?|xlsx?"
    r"|pptx?|od[tsp]|pdf|epub|parquet|arrow|avro|orc|np[yz]|pkl|h5|onnx|safetensors|gguf|lock|sum|log|map|snap|stdout"
    r"|stderr|out|po|pot|mo|xlf|xliff|pem|crt|cer|key|sig|asc|sha\d+|md5)$",
    re.IGNORECASE,
)
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
    """What is code, and what may be read as plain text: XML, and names of no language and not of data."""
    if (language := detect_language(name)) in (None, "xml"):
        return not name.startswith(".") and _DATA_FILE.search(name) is None
    return is_code(language) or is_tsconfig(name) or _OTHER_CODE_FILE.search(name) is not None


def _accepts_markup(name: str) -> bool:
    return _MARKUP_FILE.search(name) is not None and not is_code(detect_language(name))


SELECTION_DEFAULTS: dict[SourceType | Literal["wiki"], SelectionDefaults] = {
    "code": SelectionDefaults(_accepts_code, 1_000_000, _TOOL_FOLDERS | VENDORED_FOLDERS, _GENERATED_CODE),
    "markdown": SelectionDefaults(_accepts_markup, 1_000_000, _TOOL_FOLDERS | VENDORED_FOLDERS - {"dist"}),
    "wiki": SelectionDefaults(_WIKI_PAGE.search, 1_000_000, _TOOL_FOLDERS),
    "openapi": SelectionDefaults(
        _STRUCTURED_FILE.search, 5_000_000, _TOOL_FOLDERS | VENDORED_FOLDERS - {"dist"}
    ),
    "archive": SelectionDefaults(_RECORD_FILE.search, 5_000_000, _TOOL_FOLDERS),
    "files": SelectionDefaults(_OFFICE_DOCUMENT.search, 50_000_000, _TOOL_FOLDERS),
}


class LeftOut(NamedTuple):
    """What a file that is not taken is counted as."""

    kind: Literal["format", "link", "folder", "unlisted folder"]
    name: str  # the ending of a file's name, or the path of a folder


_LEFT_OUT_WORDS = {  # of one, of several, and of what is in parentheses
    "format": ("{} of another format", "{}s of other formats", "{1:,} {0}"),
    "link": ("{} that is a symbolic link", "{}s that are symbolic links", "{1:,} {0}"),
    "folder": ("{} in a folder left out by default", "{}s in folders left out by default", "{1:,} in {0}"),
    "unlisted folder": (
        "folder left out by default, not counted",
        "folders left out by default, not counted",
        "{0}",
    ),
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
    left_out: Counter[LeftOut] = field(default_factory=Counter[LeftOut])  # of one listing
    # None of a folder that is not pruned, else whether it is so by default
    _pruned_by_default: dict[str, bool | None] = field(default_factory=lambda: {"": None})
    _accepted: dict[tuple[str, bool], bool] = field(default_factory=dict[tuple[str, bool], bool])

    @property
    def judged_paths(self) -> int:
        """How many paths it remembers."""
        return len(self._accepted) + len(self._pruned_by_default)

    def is_pruned(self, folder: str) -> bool:
        """Whether nothing below this folder, or below one that holds it, is taken."""
        return self._find_pruned(folder) is not None

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
        if not self._is_included(path, executable=executable):
            return False
        languages = list_possible_languages(name) if self.languages else frozenset[str]()
        if languages and not languages & self.languages:
            return False
        verdict = self.exclude.check_file(path).include
        return not (self._find_default_exclusion(name) if verdict is None else verdict)

    def is_plain_text(self, path: str) -> bool:
        """Whether a file is taken though no language of programs takes its name."""
        return self.include is None and detect_language(path) in (None, "xml")

    def is_script_candidate(self, path: str) -> bool:
        """Whether only the first line of a wanted file can tell if it is code."""
        name = path.rpartition("/")[2]
        return self.accepts_scripts and "." not in name and detect_language(name) is None

    def is_markup_candidate(self, path: str) -> bool:
        """Whether only the first lines of a wanted file can tell if it is markup: Sphinx reads `.txt` too."""
        is_text = self.accepts_markup and _TEXT_OF_DOCUMENTATION.search(path) is not None
        return is_text and not self.defaults.accepts(path.rpartition("/")[2])

    def find_left_out(self, path: str, *, too_large: bool = False, is_link: bool = False) -> LeftOut | None:
        """What a file that is not taken is counted as; None where patterns of the user's leave it out."""
        folder, _, name = path.rpartition("/")
        if (pruned := self._find_pruned(folder)) is not None:
            is_wanted = self._pruned_by_default[pruned] and self._is_included(path)
            return LeftOut("folder", pruned) if is_wanted else None
        excluded = self.exclude.check_file(path).include
        if not self.counts_formats or excluded or name.startswith("."):
            return None
        if excluded is None and (exclusion := self._find_default_exclusion(name)):
            return LeftOut("format", exclusion[0].lower())
        ending = splitext(name)[1].lower()[:_MAX_ENDING_CHARS] or "without an ending"
        if is_link:
            return LeftOut("link", ending)
        if self.defaults.accepts(name) and not too_large:
            return None
        return LeftOut("format", f"{ending} over {MAX_PLAIN_TEXT_BYTES // 1000} kB" if too_large else ending)

    def count_left_out(self, path: str, **facts: bool) -> None:
        """Note one file that is not taken."""
        self.count(self.find_left_out(path, **facts))

    def count(self, left_out: LeftOut | None) -> None:
        """Note one file, as `find_left_out` told."""
        if left_out:
            is_named = left_out in self.left_out or len(self.left_out) < _MAX_NAMED
            self.left_out[left_out if is_named else LeftOut(left_out.kind, "others")] += 1

    def count_unlisted(self, folder: str) -> None:
        """Note a folder whose files were not listed, where the defaults alone leave it out."""
        if self._pruned_by_default.get(folder):
            self.count(LeftOut("unlisted folder", folder))

    def describe_left_out(self, what: str) -> Counter[str]:
        """What was counted: 12 "files of other formats (9 .msg, 3 .doc)"."""
        notes = Counter[str]()
        for kind, (one, several, shape) in _LEFT_OUT_WORDS.items():
            counts = Counter({name: count for (of, name), count in self.left_out.items() if of == kind})
            shown = [shape.format(*pair) for pair in counts.most_common(_MAX_SHOWN)]
            if len(counts) > len(shown):
                shown.append(f"{len(counts) - len(shown):,} more")
            if total := counts.total():
                notes[f"{(one if total == 1 else several).format(what)} ({', '.join(shown)})"] = total
        return notes

    def _is_included(self, path: str, *, executable: bool = False) -> bool:
        if self.include is not None:
            return self.include.match_file(path)
        name = path.rpartition("/")[2]
        if self.languages and detect_language(name) is None:  # only its first line can tell
            return executable and self.is_script_candidate(name)
        is_shared_tsconfig = self.accepts_scripts and is_tsconfig(path)
        return bool(self.defaults.accepts(name)) or is_shared_tsconfig or self.is_markup_candidate(path)

    def _find_default_exclusion(self, name: str) -> re.Match[str] | None:
        return self.defaults.excluded_files.search(name) if self.defaults.excluded_files else None

    def _find_pruned(self, folder: str) -> str | None:
        """The outermost of a folder and those that hold it of which nothing is taken."""
        if self._pruned_by_default.get(folder, False) is None:
            return None
        end = 0
        while end >= 0:
            end = folder.find("/", end + 1)
            outer = folder if end < 0 else folder[:end]
            if outer not in self._pruned_by_default:
                self._pruned_by_default[outer] = self._judge_folder(outer)
            if self._pruned_by_default[outer] is not None:
                return outer
        return None

    def _judge_folder(self, folder: str) -> bool | None:
        name = folder.rpartition("/")[2]
        excluded = name in ALWAYS_EXCLUDED or self.exclude.check_file(f"{folder}/").include
        if excluded is not None:
            return False if excluded else None
        is_default = name in self.defaults.excluded_folders
        return True if is_default and not (name in VENDORED_FOLDERS and is_package(folder)) else None


def build_selection(source: SourceConfig) -> FileSelection:
    """The files that a source takes. Raises ConfigError: a pattern is not gitignore's, a language unknown."""
    for name in source.languages:
        if name not in LANGUAGES:
            near = get_close_matches(name.lower(), LANGUAGES, n=3, cutoff=0.5) or sorted(PARSED_LANGUAGES)
            raise ConfigError(
                f"source {source.id!r}: languages has {name!r}, which is not known: "
                f"did you mean {', '.join(near)}?"
            )
    languages = frozenset(source.languages) if source.type == "code" else frozenset[str]()
    kind = "wiki" if isinstance(source.connection, WikiConnection) else source.type
    return _build_selection(kind, *_compile_patterns(source), languages)


def build_attachment_selection(source_id: str, settings: AttachmentSettings) -> FileSelection:
    """The attachments that are taken, by name: the formats of type `files`, or as the patterns say."""
    include = _compile(source_id, "attachments.include", settings.include)
    exclude = _compile(source_id, "attachments.exclude", settings.exclude)
    return _build_selection("files", include if settings.include else None, exclude, frozenset[str]())


def _build_selection(
    source_type: SourceType | Literal["wiki"],
    include: GitIgnoreSpec | None,
    exclude: GitIgnoreSpec,
    languages: frozenset[str],
) -> FileSelection:
    return FileSelection(
        defaults=SELECTION_DEFAULTS[source_type],
        include=include,
        exclude=exclude,
        languages=languages,
        accepts_scripts=source_type == "code" and include is None,
        accepts_markup=source_type == "markdown" and include is None,
        counts_formats=source_type in ("files", "code") and include is None,
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
    digest = hash_strings(*source.include, "", *source.exclude)[:8]
    return ChangedPaths(*_compile_patterns(source), digest)


def _compile_patterns(source: SourceConfig) -> tuple[GitIgnoreSpec | None, GitIgnoreSpec]:
    """`include`, None where it is empty, and `exclude` of a source."""
    include = _compile(source.id, "include", source.include)
    return include if source.include else None, _compile(source.id, "exclude", source.exclude)


def _compile(source_id: str, key: str, patterns: Sequence[str]) -> GitIgnoreSpec:
    for pattern in patterns:
        try:
            GitIgnoreSpec.from_lines([pattern])
        except ValueError as error:
            raise ConfigError(
                f"source {source_id!r}: {key} has the pattern {pattern!r}, "
                f"which is not gitignore syntax ({error})"
            ) from error
    return GitIgnoreSpec.from_lines(patterns)

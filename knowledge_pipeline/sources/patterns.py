"""Which files a source takes: the defaults of its type, then the user's patterns.

`include`, when given, replaces the default choice by name. `exclude` adds to the folders
and files that are left out by default; `!vendor/` in it brings one of those back.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches

from pathspec import GitIgnoreSpec

from knowledge_pipeline.config.settings import SourceConfig, SourceType
from knowledge_pipeline.errors import ConfigError
from knowledge_pipeline.languages import GRAMMARS, LANGUAGES, is_code, language_of, possible_languages

ALWAYS_LEFT_OUT = frozenset({".git", ".knowledge"})

_TOOLS = frozenset(
    (
        *(".hg", ".svn", "node_modules", "bower_components", "__pycache__", ".venv", "venv", ".tox", ".nox"),
        *("site-packages", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".terraform", ".gradle"),
    )
)
_VENDORED = _TOOLS | {"vendor", "third_party"}
_GENERATED_CODE = re.compile(
    r"(?:[.-]min\.(?:js|mjs|cjs|css)|\.bundle\.js|^pnpm-lock\.yaml|^conda-lock\.yml|^\.terraform\.lock\.hcl)$"
)
_MANIFEST = re.compile(r"^(?:package|composer|[jt]sconfig(?:\.[\w-]+)?)\.json$")  # says where modules lie
_MARKUP = re.compile(r"\.(?:md|markdown|mdx|rst)$|^readme(?:$|\.txt$|[._-][a-z]{2}(?:[_-][a-z]{2})?$)", re.I)
_STRUCTURED = re.compile(r"\.(?:ya?ml|json)$", re.IGNORECASE)
_RECORD = re.compile(r"\.(?:md|markdown|mdx|rst|txt|json|jsonl|ndjson)$", re.IGNORECASE)
_OFFICE = re.compile(r"\.(?:pdf|docx|html?|txt)$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Defaults:
    """What a source type takes when its configuration does not say."""

    wants: Callable[[str], bool]  # of a file name
    max_bytes: int
    left_out_folders: frozenset[str]
    left_out_files: re.Pattern[str] | None = None


DEFAULTS: dict[SourceType, Defaults] = {
    "code": Defaults(
        wants=lambda name: is_code(language_of(name)) or _MANIFEST.search(name) is not None,
        max_bytes=1_000_000,
        left_out_folders=_VENDORED | {"dist"},
        left_out_files=_GENERATED_CODE,
    ),
    "markdown": Defaults(
        wants=lambda name: _MARKUP.search(name) is not None and not is_code(language_of(name)),
        max_bytes=1_000_000,
        left_out_folders=_VENDORED,
    ),
    "openapi": Defaults(
        wants=lambda name: _STRUCTURED.search(name) is not None,
        max_bytes=5_000_000,
        left_out_folders=_VENDORED,
    ),
    "archive": Defaults(
        wants=lambda name: _RECORD.search(name) is not None,
        max_bytes=5_000_000,
        left_out_folders=_TOOLS,
    ),
    "files": Defaults(
        wants=lambda name: _OFFICE.search(name) is not None,
        max_bytes=50_000_000,
        left_out_folders=_TOOLS,
    ),
}


@dataclass(slots=True)
class Selection:
    """The files that one source takes, by path alone. Remembers folders it has judged."""

    defaults: Defaults
    include: GitIgnoreSpec | None
    exclude: GitIgnoreSpec
    languages: frozenset[str]
    scripts: bool  # whether a program without an extension may be wanted for its first line
    _pruned: dict[str, bool] = field(default_factory=lambda: {"": False})

    def prunes(self, folder: str) -> bool:
        """Whether nothing below this folder, or below one that holds it, is taken."""
        known = self._pruned.get(folder)
        if known is None:
            known, end = False, 0
            while not known and end >= 0:
                end = folder.find("/", end + 1)
                known = self._prunes_itself(folder if end < 0 else folder[:end])
        return known

    def wants(self, path: str, *, executable: bool = False) -> bool:
        """Whether the file is taken, its folders not looked at.

        True for a program without an extension where scripts may be wanted: its first
        line has to tell (`is_script_candidate`).
        """
        name = path.rpartition("/")[2]
        if name in ALWAYS_LEFT_OUT or not self._chosen(path, name, executable=executable):
            return False
        spoken = possible_languages(name)
        if self.languages and spoken and not spoken & self.languages:
            return False
        return not self._leaves_out(path, name)

    def is_script_candidate(self, path: str) -> bool:
        """Whether only the first line of a wanted file can tell if it is code."""
        name = path.rpartition("/")[2]
        return self.scripts and "." not in name and language_of(name) is None

    def _prunes_itself(self, folder: str) -> bool:
        known = self._pruned.get(folder)
        if known is None:
            name = folder.rpartition("/")[2]
            known = name in ALWAYS_LEFT_OUT or self._leaves_out(f"{folder}/", name)
            self._pruned[folder] = known
        return known

    def _chosen(self, path: str, name: str, *, executable: bool) -> bool:
        if self.include is not None:
            return self.include.match_file(path)
        return self.defaults.wants(name) or (executable and self.is_script_candidate(name))

    def _leaves_out(self, path: str, name: str) -> bool:
        """Whether a file, or a folder (with a slash at its end), is excluded."""
        verdict = self.exclude.check_file(path).include
        if verdict is not None:
            return verdict
        if path.endswith("/"):
            return name in self.defaults.left_out_folders
        left_out = self.defaults.left_out_files
        return left_out is not None and left_out.search(name) is not None


def selection(source: SourceConfig) -> Selection:
    """The files that a source takes.

    Raises:
        ConfigError: a pattern is not one that gitignore knows, or a language is unknown.
    """
    _check_languages(source)
    include = _spec(source, "include", source.include) if source.include else None
    return Selection(
        defaults=DEFAULTS[source.type],
        include=include,
        exclude=_spec(source, "exclude", source.exclude),
        languages=frozenset(source.languages) if source.type == "code" else frozenset(),
        scripts=source.type == "code" and include is None,
    )


def _check_languages(source: SourceConfig) -> None:
    for name in source.languages:
        if name not in LANGUAGES:
            near = get_close_matches(name.lower(), LANGUAGES, n=3, cutoff=0.5) or sorted(GRAMMARS)
            raise ConfigError(
                f"source {source.id!r}: languages has {name!r}, which is not known: "
                f"did you mean {', '.join(near)}?"
            )


def _spec(source: SourceConfig, key: str, patterns: Sequence[str]) -> GitIgnoreSpec:
    for pattern in patterns:
        try:
            GitIgnoreSpec.from_lines([pattern])
        except ValueError as error:
            raise ConfigError(
                f"source {source.id!r}: {key} has the pattern {pattern!r}, "
                f"which is not gitignore syntax ({error})"
            ) from error
    return GitIgnoreSpec.from_lines(patterns)

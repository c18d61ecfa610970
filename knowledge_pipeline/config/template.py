"""The first `knowledge.yaml` of a folder: the sources that are there, with comments.

Only names are looked at, and the first kilobytes of YAML and JSON files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from knowledge_pipeline.config.file import check_config, format_problems
from knowledge_pipeline.config.yaml_edit import to_flow_yaml
from knowledge_pipeline.errors import ConfigError
from knowledge_pipeline.languages import PARSED_LANGUAGES, detect_language

_MAX_FILES = 50_000
_MAX_SPECIFICATIONS = 2_000  # YAML and JSON files that are opened
_HEAD_BYTES = 4096
_SKIPPED_FOLDERS = {
    "node_modules",
    "vendor",
    "venv",
    "__pycache__",
    "dist",
    "build",
    "target",
    "site-packages",
}
_MARKDOWN_SUFFIXES = {".md", ".markdown", ".mdx", ".rst"}
_PAGED_SUFFIXES = {".pdf", ".docx"}
_OPENAPI = re.compile(rb"""^\s*\{?\s*["']?(?:openapi|swagger)["']?\s*:\s*["']?[23]""", re.MULTILINE)

_HEADER = """\
# What is indexed, and how: docs/configuration.md explains every key.
# Relative paths are relative to this file; secrets are written as ${NAME}.
version: 1

# Where the tables lie. Keep this folder out of version control.
store: .knowledge
"""
_DESCRIPTIONS = {
    "code": "Source files, cut at functions and classes.",
    "markdown": "Markdown and reStructuredText, cut at headings.",
    "openapi": "OpenAPI and Swagger files, one chunk an operation.",
    "git_history": "Commits: message, author, changed files; the newest 1,000 unless `depth` says more.",
    "files": "PDF and Word files, with page numbers.",
}
_SOURCE_IDS = {
    "code": "code",
    "markdown": "docs",
    "openapi": "api",
    "git_history": "history",
    "files": "files",
}
_NO_SOURCES = """
# Nothing to index was found here yet. An example:
#   - id: code
#     type: code
#     connection:
#       type: git
#       url: https://example.com/team/project.git
sources: []
"""


def render_initial_config(
    folder: Path, *, config_folder: Path | None = None, repository: str | None = None
) -> str:
    """The text of a fresh file that declares what lies in `folder`.

    `beside` is the folder that the file will lie in (None: `folder` itself). With
    `repository`, a git URL, the sources read that repository instead, unseen.

    Raises:
        ConfigError: `folder` is no folder.
    """
    if repository is not None:
        where = f"      type: git\n      url: {_quote_yaml(repository)}\n"
        types = ["code", "markdown", "openapi", "git_history"]
    else:
        where = (
            f"      type: local\n      path: {_quote_yaml(_relative_path(folder, config_folder or folder))}\n"
        )
        types = list(_detect_source_types(folder))
    if not types:
        return _HEADER + _NO_SOURCES
    return f"{_HEADER}\nsources:\n" + "\n".join(_render_source(kind, where) for kind in types)


def write_initial_config(path: Path, folder: Path, *, repository: str | None = None) -> None:
    """Write `initial` to `path`, which must not exist.

    Raises:
        ConfigError: there is a file already, it cannot be written, or `repository` holds a password.
    """
    text = render_initial_config(folder, config_folder=path.absolute().parent, repository=repository)
    _, problems = check_config(text, path)
    if problems:
        raise ConfigError(format_problems(problems[:1], path))
    try:
        with path.open("x", encoding="utf-8", newline="") as file:
            file.write(text)
    except FileExistsError:
        raise ConfigError(f"{path} exists already: edit it, or remove it first") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be written ({error.strerror}): check its folder") from None


def _render_source(kind: str, connection_yaml: str) -> str:
    text = f"  # {_DESCRIPTIONS[kind]}\n  - id: {_SOURCE_IDS[kind]}\n    type: {kind}\n    connection:\n{connection_yaml}"
    return text + '    include: ["*.pdf", "*.docx"]\n' if kind == "files" else text


def _quote_yaml(text: str) -> str:
    """As it stands in YAML, with nothing in it taken for a variable."""
    return (
        text if re.fullmatch(r"[\w./][\w./:@-]*", text, re.ASCII) else to_flow_yaml(text.replace("${", "$${"))
    )


def _relative_path(folder: Path, config_folder: Path) -> str:
    try:
        return Path(os.path.relpath(folder.absolute(), config_folder.absolute())).as_posix()
    except ValueError:  # another drive
        return folder.absolute().as_posix()


@dataclass(slots=True)
class _FolderScan:
    """What a walk has found so far."""

    code: bool = False
    markdown: bool = False
    openapi: bool = False
    files: bool = False
    opened_files: int = 0

    def add_file(self, path: Path) -> None:
        suffix = path.suffix.lower()
        self.code |= detect_language(path.name) in PARSED_LANGUAGES
        self.markdown |= suffix in _MARKDOWN_SUFFIXES or path.name.lower() == "readme"
        self.files |= suffix in _PAGED_SUFFIXES
        if (
            suffix in {".yaml", ".yml", ".json"}
            and not self.openapi
            and self.opened_files < _MAX_SPECIFICATIONS
        ):
            self.opened_files += 1
            self.openapi = _is_openapi(path)


def _detect_source_types(folder: Path) -> Iterator[str]:
    if not folder.is_dir():
        raise ConfigError(f"{folder} is no folder: name the folder to index")
    seen = _FolderScan()
    for path in _walk_files(folder):
        seen.add_file(path)
    if seen.code:
        yield "code"
    if seen.markdown:
        yield "markdown"
    if seen.openapi:
        yield "openapi"
    if (folder / ".git").exists():
        yield "git_history"
    if seen.files:
        yield "files"


def _walk_files(folder: Path) -> Iterator[Path]:
    """Up to a bound, without links, hidden folders, and those that hold other people's files."""
    left = _MAX_FILES
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(
            name for name in folders if name not in _SKIPPED_FOLDERS and not name.startswith(".")
        )
        for name in names[:left]:
            yield Path(root, name)
        left -= len(names)
        if left <= 0:
            return


def _is_openapi(path: Path) -> bool:
    try:
        if not path.is_file():  # a pipe would wait for ever
            return False
        with path.open("rb") as file:
            return bool(_OPENAPI.search(file.read(_HEAD_BYTES)))
    except OSError:
        return False

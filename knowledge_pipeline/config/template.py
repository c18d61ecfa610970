"""The initial `knowledge.yaml` of a folder: its sources, with comments.

Reads only file names, and the first kilobytes of YAML and JSON files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from knowledge_pipeline.config.file import check_config, format_problems
from knowledge_pipeline.config.yaml_edit import to_flow_yaml
from knowledge_pipeline.errors import ConfigError
from knowledge_pipeline.languages import PARSED_LANGUAGES, detect_language

_MAX_FILES = 50_000
_MAX_SPECIFICATIONS = 2_000  # YAML and JSON files that are opened
_HEAD_BYTES = 4096
_SKIPPED_FOLDERS = {
    *("node_modules", "vendor", "venv", "site-packages", "__pycache__", "dist", "build", "target")
}
_MARKDOWN_SUFFIXES = {".md", ".markdown", ".mdx", ".rst"}
_PAGED_SUFFIXES = {".pdf", ".docx", ".pptx", ".xlsx"}
_SPECIFICATION_SUFFIXES = {".yaml", ".yml", ".json"}
_OPENAPI = re.compile(rb"""^[ \t]*+\{?[ \t]*+["']?(?:openapi|swagger)["']?\s*:\s*["']?[23]""", re.MULTILINE)

_HEADER = """\
# What is indexed, and how: docs/configuration.md explains every key.
# Relative paths are relative to this file; secrets are written as ${NAME}.
version: 1

# Where the tables are stored. Keep this folder out of version control.
store: .knowledge
"""
_DESCRIPTIONS = {
    "code": "Source files, cut at functions and classes.",
    "markdown": "Markdown and reStructuredText, cut at headings.",
    "openapi": "OpenAPI and Swagger files, one chunk an operation.",
    "git_history": "Commits: message, author, changed files; the newest 1,000 unless `depth` says more.",
    "files": "PDF and Word files, with page numbers.",
}
USUAL_IDS = {"markdown": "docs", "openapi": "api", "git_history": "history"}
"""The ids of sources, or their last part, by type; those of other types are named as the type."""

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
    """The text of a new file that declares what `folder` holds.

    `config_folder` is where the file will be (None: `folder` itself). With `repository`,
    a git URL, the sources read that repository instead, whatever it holds. Raises ConfigError
    if `folder` is not a folder.
    """
    if repository is not None:
        where = f"      type: git\n      url: {_quote_yaml(repository)}\n"
        types = ["code", "markdown", "openapi", "git_history"]
    else:
        try:
            path = Path(os.path.relpath(folder.absolute(), (config_folder or folder).absolute())).as_posix()
        except ValueError:  # another drive
            path = folder.absolute().as_posix()
        where = f"      type: local\n      path: {_quote_yaml(path)}\n"
        types = list(_detect_source_types(folder))
    if not types:
        return _HEADER + _NO_SOURCES
    entries = [
        f"  # {_DESCRIPTIONS[kind]}\n  - id: {USUAL_IDS.get(kind, kind)}\n    type: {kind}\n"
        f"    connection:\n{where}"
        + ('    include: ["*.pdf", "*.docx", "*.pptx", "*.xlsx"]\n' if kind == "files" else "")
        for kind in types
    ]
    return f"{_HEADER}\nsources:\n" + "\n".join(entries)


def write_initial_config(path: Path, folder: Path, *, repository: str | None = None) -> None:
    """Write the initial file to `path`, which must not exist.

    Raises:
        ConfigError: the file exists, it cannot be written, or `repository` holds a password.
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


def _quote_yaml(text: str) -> str:
    """The text as a YAML value in which nothing is taken for a variable."""
    is_plain = re.fullmatch(r"[\w./][\w./:@-]*", text, re.ASCII)
    return text if is_plain else to_flow_yaml(text.replace("${", "$${"))


def _detect_source_types(folder: Path) -> Iterator[str]:
    if not folder.is_dir():
        raise ConfigError(f"{folder} is not a folder: name the folder to index")
    found: set[str] = {"git_history"} if (folder / ".git").exists() else set()
    opened = 0
    for path in _walk_files(folder):
        suffix = path.suffix.lower()
        if detect_language(path.name) in PARSED_LANGUAGES:
            found.add("code")
        if suffix in _MARKDOWN_SUFFIXES or path.name.lower() == "readme":
            found.add("markdown")
        if suffix in _PAGED_SUFFIXES:
            found.add("files")
        if suffix in _SPECIFICATION_SUFFIXES and "openapi" not in found and opened < _MAX_SPECIFICATIONS:
            opened += 1
            if _is_openapi(path):
                found.add("openapi")
    yield from (kind for kind in _DESCRIPTIONS if kind in found)


def _walk_files(folder: Path) -> Iterator[Path]:
    """Up to a bound, without links, hidden folders, and folders of dependencies and build results."""
    left = _MAX_FILES
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(each for each in folders if each not in _SKIPPED_FOLDERS and each[0] != ".")
        for name in names[:left]:
            yield Path(root, name)
        left -= len(names)
        if left <= 0:
            return


def _is_openapi(path: Path) -> bool:
    try:
        if not path.is_file():  # a pipe would block
            return False
        with path.open("rb") as file:
            return bool(_OPENAPI.search(file.read(_HEAD_BYTES)))
    except OSError:
        return False

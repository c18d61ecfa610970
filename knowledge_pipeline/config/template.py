"""The first `knowledge.yaml` of a folder: the sources that are there, with comments.

Only names are looked at, and the first kilobytes of YAML and JSON files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from knowledge_pipeline.config.file import check, listed
from knowledge_pipeline.config.yaml_edit import flow
from knowledge_pipeline.errors import ConfigError
from knowledge_pipeline.languages import GRAMMARS, language_of

_MAX_FILES = 50_000
_MAX_SPECIFICATIONS = 2_000  # YAML and JSON files that are opened
_HEAD_BYTES = 4096
_SKIPPED = {"node_modules", "vendor", "venv", "__pycache__", "dist", "build", "target", "site-packages"}
_MARKDOWN = {".md", ".markdown", ".mdx", ".rst"}
_PAGES = {".pdf", ".docx"}
_OPENAPI = re.compile(rb"""^\s*\{?\s*["']?(?:openapi|swagger)["']?\s*:\s*["']?[23]""", re.MULTILINE)

_HEAD = """\
# What is indexed, and how: docs/configuration.md explains every key.
# Relative paths are relative to this file; secrets are written as ${NAME}.
version: 1

# Where the tables lie. Keep this folder out of version control.
store: .knowledge
"""
_ABOUT = {
    "code": "Source files, cut at functions and classes.",
    "markdown": "Markdown and reStructuredText, cut at headings.",
    "openapi": "OpenAPI and Swagger files, one chunk an operation.",
    "git_history": "Commits: message, author, changed files; the newest 1,000 unless `depth` says more.",
    "files": "PDF and Word files, with page numbers.",
}
_IDS = {"code": "code", "markdown": "docs", "openapi": "api", "git_history": "history", "files": "files"}
_NOTHING = """
# Nothing to index was found here yet. An example:
#   - id: code
#     type: code
#     connection:
#       type: git
#       url: https://example.com/team/project.git
sources: []
"""


def initial(folder: Path, *, beside: Path | None = None, repository: str | None = None) -> str:
    """The text of a fresh file that declares what lies in `folder`.

    `beside` is the folder that the file will lie in (None: `folder` itself). With
    `repository`, a git URL, the sources read that repository instead, unseen.

    Raises:
        ConfigError: `folder` is no folder.
    """
    if repository is not None:
        where = f"      type: git\n      url: {_written(repository)}\n"
        types = ["code", "markdown", "openapi", "git_history"]
    else:
        where = f"      type: local\n      path: {_written(_relative(folder, beside or folder))}\n"
        types = list(_types_in(folder))
    if not types:
        return _HEAD + _NOTHING
    return f"{_HEAD}\nsources:\n" + "\n".join(_entry(kind, where) for kind in types)


def write_initial(path: Path, folder: Path, *, repository: str | None = None) -> None:
    """Write `initial` to `path`, which must not exist.

    Raises:
        ConfigError: there is a file already, it cannot be written, or `repository` holds a password.
    """
    text = initial(folder, beside=path.absolute().parent, repository=repository)
    _, problems = check(text, path)
    if problems:
        raise ConfigError(listed(problems[:1], path))
    try:
        with path.open("x", encoding="utf-8", newline="") as file:
            file.write(text)
    except FileExistsError:
        raise ConfigError(f"{path} exists already: edit it, or remove it first") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be written ({error.strerror}): check its folder") from None


def _entry(kind: str, where: str) -> str:
    text = f"  # {_ABOUT[kind]}\n  - id: {_IDS[kind]}\n    type: {kind}\n    connection:\n{where}"
    return text + '    include: ["*.pdf", "*.docx"]\n' if kind == "files" else text


def _written(text: str) -> str:
    """As it stands in YAML, with nothing in it taken for a variable."""
    return text if re.fullmatch(r"[\w./][\w./:@-]*", text, re.ASCII) else flow(text.replace("${", "$${"))


def _relative(folder: Path, beside: Path) -> str:
    try:
        return Path(os.path.relpath(folder.absolute(), beside.absolute())).as_posix()
    except ValueError:  # another drive
        return folder.absolute().as_posix()


@dataclass(slots=True)
class _Seen:
    """What a walk has found so far."""

    code: bool = False
    markdown: bool = False
    openapi: bool = False
    files: bool = False
    opened: int = 0

    def look_at(self, path: Path) -> None:
        suffix = path.suffix.lower()
        self.code |= language_of(path.name) in GRAMMARS
        self.markdown |= suffix in _MARKDOWN or path.name.lower() == "readme"
        self.files |= suffix in _PAGES
        if suffix in {".yaml", ".yml", ".json"} and not self.openapi and self.opened < _MAX_SPECIFICATIONS:
            self.opened += 1
            self.openapi = _is_openapi(path)


def _types_in(folder: Path) -> Iterator[str]:
    if not folder.is_dir():
        raise ConfigError(f"{folder} is no folder: name the folder to index")
    seen = _Seen()
    for path in _files_in(folder):
        seen.look_at(path)
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


def _files_in(folder: Path) -> Iterator[Path]:
    """Up to a bound, without links, hidden folders, and those that hold other people's files."""
    left = _MAX_FILES
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in _SKIPPED and not name.startswith("."))
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

"""The files of a Slack export, out of its zip file or the folder that it was unpacked to.

Nothing is unpacked: a file is read when it is asked for, and none from outside of the export.
"""

from __future__ import annotations

import json
import re
import stat
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections import defaultdict
from pathlib import Path, PurePosixPath
from typing import Any

from knowledge_pipeline.errors import DocumentSkipped, SourceRefused
from knowledge_pipeline.json_values import is_list

MAX_FILE_BYTES = 200_000_000
"""Of one file, unpacked; a larger one is not believed."""

_DAY_FILE = re.compile(r"\d{4}-\d\d-\d\d\.json", re.ASCII)
_DRIVE = re.compile(r"[A-Za-z]:")
_BROKEN_ZIP = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, OSError)
"""What zipfile raises: of damage, of a packing that it does not know, and (RuntimeError) of a password."""

_CHANNELS_FILE = "channels.json"


class ExportFiles(ABC):
    """Read-only; `close` it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @abstractmethod
    def list_days(self, folder: str) -> list[str]:
        """The names of a channel's files, one a day: "2026-11-21.json", ascending."""

    @abstractmethod
    def read(self, name: str) -> bytes:
        """A file by its path in the export.

        Raises:
            KeyError: there is no such file.
            DocumentSkipped: it cannot be read, or is too large.
        """

    def close(self) -> None:  # noqa: B027 - a folder holds nothing open
        """Nothing can be read after it."""

    def read_json_list(self, name: str) -> list[Any]:
        """The list that a file of JSON holds.

        Raises:
            KeyError, DocumentSkipped: as `read`, or it holds none.
        """
        try:
            found = json.loads(self.read(name))
        except (ValueError, RecursionError):
            raise DocumentSkipped(f"{name} is not valid JSON") from None
        if not is_list(found):
            raise DocumentSkipped(f"{name} holds no list of messages")
        return found


def open_export(path: Path) -> ExportFiles:
    """The files of an export.

    Raises:
        SourceRefused: it is none.
    """
    path = path.expanduser().absolute()
    if path.is_dir():
        return _FolderExport(path)
    if not path.exists():
        raise SourceRefused(f"the Slack export {path} does not exist: correct connection.path")
    return _ZipExport(path)


def build_not_export_error(path: Path) -> SourceRefused:
    """The error for anything other than an export."""
    return SourceRefused(
        f"{path} is not a Slack export: it has no {_CHANNELS_FILE}; set connection.path to the zip file as "
        "Slack made it, or to the folder that it was unpacked to"
    )


class _FolderExport(ExportFiles):
    def list_days(self, folder: str) -> list[str]:
        place = self._resolve_inside(folder)
        try:
            return sorted(each.name for each in place.iterdir() if _DAY_FILE.fullmatch(each.name))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise SourceRefused(
                f"the folder {place} cannot be listed ({error.strerror}): make it readable"
            ) from None

    def read(self, name: str) -> bytes:
        try:
            with self._resolve_inside(name).open("rb") as file:
                content = file.read(MAX_FILE_BYTES + 1)
        except FileNotFoundError:
            raise KeyError(name) from None
        except OSError as error:
            raise DocumentSkipped(f"{name} cannot be read ({error.strerror})") from None
        return _require_size(name, content)

    def _resolve_inside(self, name: str) -> Path:
        place = self.path / name
        if not place.resolve().is_relative_to(self.path.resolve()):
            raise SourceRefused(
                f"the Slack export {self.path} leads out of its folder at {name}: unpack it again"
            )
        return place


class _ZipExport(ExportFiles):
    def __init__(self, path: Path) -> None:
        super().__init__(path)
        try:
            self._zip = zipfile.ZipFile(path)
        except _BROKEN_ZIP:
            raise SourceRefused(
                f"{path} is not a readable zip file: give the Slack export as it was downloaded, or "
                "download it again"
            ) from None
        try:
            self._root = self._find_root()
        except SourceRefused:
            self._zip.close()
            raise
        self._days: defaultdict[str, list[str]] = defaultdict(list)
        for name in self._zip.namelist():
            folder, _, file = name.removeprefix(self._root).rpartition("/")
            if name.startswith(self._root) and _DAY_FILE.fullmatch(file):
                self._days[folder].append(file)

    def close(self) -> None:
        self._zip.close()

    def list_days(self, folder: str) -> list[str]:
        return sorted(set(self._days.get(folder, ())))

    def read(self, name: str) -> bytes:
        entry = self._zip.getinfo(self._root + name)  # KeyError where there is none
        try:
            with self._zip.open(entry) as file:
                content = file.read(MAX_FILE_BYTES + 1)
        except _BROKEN_ZIP:
            raise DocumentSkipped(f"{name} cannot be unpacked: download the export again") from None
        return _require_size(name, content)

    def _find_root(self) -> str:
        """The folder within the zip that the export is in, as a rule ""; nothing may lead out of it."""
        tops: list[str] = []
        for entry in self._zip.infolist():
            path = PurePosixPath(entry.filename.replace("\\", "/"))
            if (
                path.is_absolute()
                or ".." in path.parts
                or _DRIVE.match(entry.filename)
                or stat.S_ISLNK(entry.external_attr >> 16)
            ):
                raise SourceRefused(
                    f"{self.path} holds a file that leads out of it ({entry.filename[:100]!r}): do not use it"
                )
            if path.name == _CHANNELS_FILE and len(path.parts) <= 2:
                tops.append(entry.filename.removesuffix(_CHANNELS_FILE))
        if not tops:
            raise build_not_export_error(self.path)
        return min(tops, key=len)


def _require_size(name: str, content: bytes) -> bytes:
    if len(content) > MAX_FILE_BYTES:
        raise DocumentSkipped(f"{name} is larger than {MAX_FILE_BYTES} bytes")
    return content

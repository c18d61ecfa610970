"""Files as origins: of each type that is read from files, at each place that files lie."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from knowledge_pipeline.contract.filters import SourceType
from knowledge_pipeline_tests.stages.lives.origin import Fault, Origin

_MAX_BYTES = 4000
_NO_NETWORK = "it is on this machine"


@dataclass(frozen=True, slots=True)
class FileForm:
    """How a document of a type is written: extension and content."""

    extension: str
    write: Callable[[str, str], str]
    broken: bytes  # of a file that is skipped


_TOO_LARGE = b"word " * _MAX_BYTES
_BINARY = b"\x00\x01\x02\x03" * 100

FORMS: Mapping[SourceType, FileForm] = {
    "code": FileForm(
        "py",
        lambda title, text: f'"""{title}."""\n\n\ndef work():\n    """{text}"""\n    return 1\n',
        _BINARY,
    ),
    "markdown": FileForm("md", lambda title, text: f"# {title}\n\n{text}\n", _BINARY),
    "openapi": FileForm(
        "yaml",
        lambda title, text: (
            f"openapi: 3.1.0\ninfo: {{title: {title}, version: '1'}}\npaths:\n  /work:\n    get:\n"
            f"      description: {text}\n      responses: {{'200': {{description: done}}}}\n"
        ),
        b"openapi: 3.1.0\n# " + _TOO_LARGE,
    ),
    "files": FileForm(
        "html", lambda title, text: f"<html><title>{title}</title><p>{text}</p></html>", _TOO_LARGE
    ),
    "archive": FileForm("md", lambda title, text: f"---\ntitle: {title}\n---\n\n{text}\n", _TOO_LARGE),
}


class FilePlace(ABC):
    """Where files lie; a context manager while it is open."""

    names: Sequence[str]
    secrets: Sequence[str] = ()
    faults: Mapping[str, Fault]
    cannot: Mapping[str, str]
    errors: Mapping[str, Any] = {}

    @property
    @abstractmethod
    def connection(self) -> dict[str, Any]:
        """As `knowledge.yaml` has it."""

    @abstractmethod
    def write(self, path: str, content: bytes) -> None:
        """Create a file, or give it another content."""

    @abstractmethod
    def move(self, path: str, to: str) -> None:
        """Rename a file."""

    @abstractmethod
    def delete(self, path: str) -> None:
        """Remove a file."""

    def hide(self, path: str) -> dict[str, Any]:
        """Settings that leave a file out, or none where it is ignored at its place."""
        return {"exclude": [f"/{path}"]}

    def show(self, path: str) -> None:  # noqa: B027 - settings alone hid it, as a rule
        """Undo what `hide` did to the place."""

    def __enter__(self) -> FilePlace:
        return self

    def __exit__(self, *_: object) -> None:  # noqa: B027 - a folder holds nothing open
        """Free what was opened."""


class FileOrigin(Origin):
    """Documents of a type, one a file, at a place."""

    def __init__(self, kind: SourceType, place: FilePlace) -> None:
        self._kind, self._form, self._place = kind, FORMS[kind], place
        self._titles: dict[str, str] = {}
        self.cannot, self.errors = place.cannot, place.errors  # type: ignore[misc]  # by the place

    def declare(self) -> dict[str, Any]:
        return {"type": self._kind, "connection": self._place.connection, "max_bytes": _MAX_BYTES}

    @property
    def names(self) -> Sequence[str]:
        return self._place.names

    @property
    def secrets(self) -> Sequence[str]:  # type: ignore[override]
        return self._place.secrets

    @property
    def faults(self) -> Mapping[str, Fault]:
        return self._place.faults

    def create(self, title: str, text: str) -> str:
        path = self._path_of(title)
        self._titles[path] = title
        self.edit(path, text)
        return path

    def edit(self, key: str, text: str) -> None:
        self._place.write(key, self._form.write(self._titles[key], text).encode())

    def rename(self, key: str, title: str) -> str:
        path = f"moved/{self._path_of(title)}"
        self._place.move(key, path)
        self._titles[path] = self._titles.pop(key)
        return path

    def remove(self, key: str) -> None:
        self._place.delete(key)

    def hide(self, key: str) -> dict[str, Any]:
        return self._place.hide(key)

    def show(self, key: str) -> None:
        self._place.show(key)

    def spoil(self, key: str) -> None:
        self._place.write(key, self._form.broken)

    def _path_of(self, title: str) -> str:
        return f"{re.sub(r'[^a-z]+', '-', title.lower())}.{self._form.extension}"

    def __enter__(self) -> FileOrigin:
        self._place.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._place.__exit__(*error)


class Folder(FilePlace):
    """A folder of this machine."""

    cannot = dict.fromkeys(
        ("denied", "forbidden", "unavailable", "unreachable", "partial", "busy"), _NO_NETWORK
    )

    def __init__(self, root: Path) -> None:
        self._root = root / "folder"
        self._root.mkdir(parents=True)
        self.names = [str(self._root)]
        self.faults = {"missing": lambda: elsewhere(self._root)}

    @property
    def connection(self) -> dict[str, Any]:
        return {"type": "local", "path": str(self._root)}

    def write(self, path: str, content: bytes) -> None:
        (self._root / path).write_bytes(content)

    def move(self, path: str, to: str) -> None:
        (self._root / to).parent.mkdir(exist_ok=True)
        (self._root / path).rename(self._root / to)

    def delete(self, path: str) -> None:
        (self._root / path).unlink()

    def hide(self, path: str) -> dict[str, Any]:
        (self._root / ".gitignore").write_text(f"/{path}\n")
        return {}

    def show(self, path: str) -> None:
        (self._root / ".gitignore").unlink()


@contextmanager
def elsewhere(path: Path) -> Iterator[None]:
    """A file or folder is gone for a while."""
    away = path.rename(path.with_name(f"{path.name}.away"))
    yield
    away.rename(path)


@contextmanager
def emptied(folder: Path) -> Iterator[None]:
    """A folder is there for a while, with nothing in it."""
    with elsewhere(folder):
        folder.mkdir()
        yield
        folder.rmdir()


@contextmanager
def changed(place: Any, **attributes: Any) -> Iterator[None]:
    """Attributes of a fake have other values for a while."""
    usual = {name: getattr(place, name) for name in attributes}
    for name, value in attributes.items():
        setattr(place, name, value)
    yield
    for name, value in usual.items():
        setattr(place, name, value)

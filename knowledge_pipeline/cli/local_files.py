"""Files named on the command line: those that a source holds, and those on this machine only."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from knowledge_pipeline.config.settings import Settings


def iter_index_locations(file: str, settings: Settings) -> Iterator[tuple[str, str | None]]:
    """The paths that a file may have in the index, each with its source; None is any source.

    A file inside the folder of local sources is theirs; any other name may be in any source.
    """
    from knowledge_pipeline.config.connections.local import LocalConnection

    path = Path(file).expanduser()
    found = False
    for source in settings.sources if path.is_file() else ():
        if not isinstance(source.connection, LocalConnection):
            continue
        folder = source.connection.path.resolve()
        if path.resolve().is_relative_to(folder):
            found = True
            yield path.resolve().relative_to(folder).as_posix(), source.id
    if not found:
        yield file, None


def read_beginning(file: str, settings: Settings) -> str:
    """As much as an example may have of a file that is not in the index."""
    text = Path(file).read_text(encoding="utf-8", errors="replace")
    return text[: settings.limits.example_chars]

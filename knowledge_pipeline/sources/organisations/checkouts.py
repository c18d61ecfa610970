"""Git checkouts in a folder of this machine, found by their `.git`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from knowledge_pipeline.config.organisations.connections import CheckoutsConnection
from knowledge_pipeline.errors import SourceRefused
from knowledge_pipeline.sources.organisations.members import OrganisationMember


def list_members(connection: CheckoutsConnection) -> Iterator[OrganisationMember]:
    """The checkouts, by name; nothing below one is looked at, and no link is followed.

    Raises:
        SourceRefused: the folder, or one in it, cannot be read.
    """
    yield from _search(connection.path.expanduser().absolute(), "", connection.depth)


def _search(folder: Path, prefix: str, depth: int) -> Iterator[OrganisationMember]:
    try:
        with os.scandir(folder) as entries:
            names = sorted(
                entry.name
                for entry in entries
                if entry.is_dir(follow_symlinks=False) and not entry.name.startswith(".")
            )
    except OSError as error:
        raise SourceRefused(
            f"the folder {folder} cannot be read ({error.strerror}): correct connection.path or its "
            "permissions (nothing is removed meanwhile)"
        ) from None
    for name in names:
        if (folder / name / ".git").exists():
            yield OrganisationMember(f"{prefix}{name}")
        elif depth > 1:
            yield from _search(folder / name, f"{prefix}{name}/", depth - 1)

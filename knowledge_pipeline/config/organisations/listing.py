"""The last listing of an organisation, in the store's folder of this machine.

It is derived data, made again from the service, and holds no secret: `load_settings` makes sources of it.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from knowledge_pipeline.config.organisations.members import OrganisationMember
from knowledge_pipeline.json_values import is_list, is_object

LISTINGS = "organisations"
"""The folder, below the store's."""


@dataclass(frozen=True, slots=True)
class OrganisationListing:
    """What an organisation consisted of, at its last complete listing."""

    location: str  # of the connection: another one has other members
    listed_at: str  # ISO 8601
    members: tuple[OrganisationMember, ...]
    problem: str = ""  # why the listing since then was not taken


def read_listing(folder: Path, organisation: str, location: str) -> OrganisationListing | None:
    """The listing of an organisation by its id; None where there is none of this connection."""
    try:
        kept: Any = json.loads((folder / f"{organisation}.json").read_bytes())
        if not is_object(kept) or kept.get("location") != location or not is_list(kept["members"]):
            return None
        members = tuple(
            OrganisationMember(topics=tuple(each.pop("topics", ())), **each) for each in kept["members"]
        )
        return OrganisationListing(location, str(kept["listed_at"]), members, str(kept.get("problem", "")))
    except (OSError, ValueError, TypeError, KeyError):
        return None  # as one that was never made: it is made again


def write_listing(folder: Path, organisation: str, listing: OrganisationListing) -> None:
    """Replace the listing in one step. Raises OSError."""
    text = json.dumps({**asdict(listing), "members": [_to_json(each) for each in listing.members]})
    replace_listing(folder, organisation, text.encode())


def replace_listing(folder: Path, organisation: str, content: bytes) -> None:
    """Replace the file of a listing in one step. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    # Beside the folder, whose time of change says that there is another listing.
    with NamedTemporaryFile(dir=folder.parent, prefix=".", delete=False) as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    Path(file.name).replace(folder / f"{organisation}.json")


def _to_json(member: OrganisationMember) -> dict[str, Any]:
    """What is not as usual: a listing of thousands is read with every configuration."""
    return {name: value for name, value in asdict(member).items() if value or name == "name"}

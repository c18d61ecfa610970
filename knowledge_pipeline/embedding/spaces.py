"""Names of vector spaces: readable, fit for a file name, and new whenever vectors would differ."""

from __future__ import annotations

import hashlib
import re

TEXT_TEMPLATE = "header, empty line, text; vectors of length 1"
"""What `records.build_embedded_text` and the providers do; a change makes every space a new one."""


def space_name(model: str, *identity: object) -> str:
    """`all-minilm-l6-v2-1f2e3d4c`: the model's last name, and 8 hex digits of its identity.

    Args:
        model: a name, a hub name ("owner/name"), or the path of a folder.
        identity: everything that determines the vectors; the text template is always part of it.
    """
    last = re.split(r"[/\\]", model.rstrip("/\\"))[-1]
    slug = re.sub(r"[^a-z0-9]+", "-", last.lower()).strip("-")[:40] or "model"
    digest = hashlib.sha256(repr((TEXT_TEMPLATE, *identity)).encode())
    return f"{slug}-{digest.hexdigest()[:8]}"

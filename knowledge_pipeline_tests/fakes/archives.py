"""Archives as programs write them: ZIP, TAR, and TAR packed by gzip."""

from __future__ import annotations

import gzip
import io
import tarfile
import zipfile
from collections.abc import Mapping

FORMS = ("zip", "tar", "tar.gz")


def pack(form: str, files: Mapping[str, bytes], *, executable: tuple[str, ...] = (), mtime: int = 0) -> bytes:
    """An archive of some files, in their order; `executable`: the names of programs."""
    made = io.BytesIO()
    if form == "zip":
        with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as packed:
            for name, content in files.items():
                info = zipfile.ZipInfo(name, (2026, 1, 1 + mtime % 28, 0, 0, 0))
                info.external_attr = (0o755 if name in executable else 0o644) << 16
                packed.writestr(info, content, zipfile.ZIP_DEFLATED)
        return made.getvalue()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.PAX_FORMAT) as packed:
        for name, content in files.items():
            header = tarfile.TarInfo(name)
            header.size, header.mtime = len(content), mtime
            header.mode = 0o755 if name in executable else 0o644
            packed.addfile(header, io.BytesIO(content))
    return gzip.compress(made.getvalue(), mtime=mtime) if form == "tar.gz" else made.getvalue()

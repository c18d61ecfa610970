"""What this installation is made of."""

from __future__ import annotations

import sys

_PACKAGES = ("pylance", "duckdb")
_OPTIONAL_PACKAGES = {  # -> the extra that has it
    "tree-sitter": "index",
    "onnxruntime": "models",
    "fastapi": "serve",
    "dagster": "dagster",
    "torch": "local",
}


def list_versions() -> list[str]:
    """This package, Python and important libraries: "knowledge 0.1.0", "no torch (extra `local`)"."""
    from importlib.metadata import PackageNotFoundError, version

    from knowledge_pipeline import __version__

    own = [f"knowledge {__version__}", f"Python {sys.version.split()[0]}"]
    versions = [*own, *(f"{name} {version(name)}" for name in _PACKAGES)]
    for package, extra in _OPTIONAL_PACKAGES.items():
        try:
            versions.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            versions.append(f"no {package} (extra `{extra}`)")
    return versions

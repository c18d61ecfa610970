"""Packages with sources, by language: from PyPI, npm and Debian, unpacked once."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

REPOSITORY = ("sympy==1.14.0", "dagster==1.13.27")
"""Two wheels of which 2,342 files of Python come: one repository of the size that is measured."""

BY_LANGUAGE = {
    "python": ("pip", "sympy==1.14.0"),
    "typescript": ("npm", "rxjs@7.8.2"),
    "tsx": ("npm", "react-native-paper@5.12.5"),
    "javascript": ("npm", "three@0.170.0"),
    "java": ("npm", "react-native@0.72.17"),
    "kotlin": ("npm", "react-native@0.72.17"),
    "cpp": ("npm", "react-native@0.72.17"),
    "go": ("apt", "golang-1.19-src"),
    "rust": ("apt", "librust-regex-syntax-dev"),
    "c": ("sdist", "zstandard==0.23.0"),
    "ruby": ("apt", "ruby-activerecord"),
    "php": ("apt", "php-symfony-http-kernel"),
    "bash": ("npm", "bats@1.11.0"),
    "c_sharp": ("npm", "react-native-windows@0.72.0"),
}
"""A package for each language; Debian's are of the release that this machine runs."""

_PIP = (sys.executable, "-m", "pip", "download", "-q", "--no-deps")
_COMMANDS = {
    "pip": (*_PIP, "--only-binary", ":all:"),
    "sdist": (*_PIP, "--no-binary", ":all:"),
    "npm": ("npm", "pack", "--silent"),
    "apt": ("apt-get", "download", "-qq"),
}


def unpack_package(registry: str, name: str, work: Path) -> Path:
    """The folder with a package's files.

    Raises:
        CalledProcessError: the registry does not give it.
    """
    folder = work / "packages" / name.replace("/", "-")
    if not folder.exists():
        archives = work / "archives" / name.replace("/", "-")
        shutil.rmtree(archives, ignore_errors=True)
        archives.mkdir(parents=True)
        subprocess.run([*_COMMANDS[registry], name], check=True, capture_output=True, cwd=archives)
        _unpack(next(archives.iterdir()), folder)
    return folder


def build_repository(work: Path) -> Path:
    """The wheels of `REPOSITORY` as one folder."""
    folder = work / "repository"
    if not folder.exists():
        made = work / "repository.part"
        shutil.rmtree(made, ignore_errors=True)
        for name in REPOSITORY:
            shutil.copytree(unpack_package("pip", name, work), made, dirs_exist_ok=True)
        made.rename(folder)
    return folder


def _unpack(archive: Path, folder: Path) -> None:
    part = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            wheel.extractall(part)
    elif archive.suffix == ".deb":
        subprocess.run(["dpkg-deb", "-x", str(archive), str(part)], check=True)
    else:
        with tarfile.open(archive) as packed:
            packed.extractall(part, filter="data")
    part.rename(folder)

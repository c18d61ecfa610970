"""Real git repositories, made in a test's folder, with times that do not depend on the clock."""

from __future__ import annotations

import copy
import os
import shutil
import subprocess
from pathlib import Path

from knowledge_pipeline.config.sources import SourceConfig
from knowledge_pipeline.connectors.files import ListingMemory
from knowledge_pipeline.connectors.registry import open_source
from knowledge_pipeline.records import Document, Item

START = 1_600_000_000


class Repository:
    """A work tree with its `.git`; commits are an hour apart unless told otherwise."""

    def __init__(self, root: Path, *, bare: bool = False) -> None:
        self.root = root
        self.clock = START
        root.mkdir(parents=True, exist_ok=True)
        self.git("init", "-q", "-b", "main", *(["--bare"] if bare else []))

    def copy(self, root: Path) -> Repository:
        """Another one like it, which is cheaper than to make the same commits again."""
        copied = copy.copy(self)
        copied.root = shutil.copytree(self.root, root)
        return copied

    def git(self, *arguments: str, stdin: bytes = b"", **environment: str) -> str:
        identity = {"GIT_AUTHOR_NAME": "Ada Byron", "GIT_COMMITTER_NAME": "Committer"}
        addresses = {"GIT_AUTHOR_EMAIL": "ada@example.org", "GIT_COMMITTER_EMAIL": "c@example.org"}
        kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        done = subprocess.run(
            ["git", "-c", "maintenance.auto=false", *arguments],
            cwd=self.root,
            input=stdin,
            capture_output=True,
            check=True,
            env=kept | identity | addresses | {"GIT_CONFIG_GLOBAL": os.devnull} | environment,
        )
        return done.stdout.decode().strip()

    def write(self, files: dict[str, str | bytes]) -> Repository:
        for name, content in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        return self

    def commit(self, message: str = "change", *, when: int | None = None, author: str = "Ada Byron") -> str:
        self.clock = when if when is not None else self.clock + 3600
        date = f"{self.clock} +0000"
        self.git("add", "-A")
        options = ["-q", "--allow-empty", "--allow-empty-message"]
        dates = {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date, "GIT_AUTHOR_NAME": author}
        self.git("commit", *options, "-F", "-", stdin=message.encode(), **dates)
        return self._read_head()

    def _read_head(self) -> str:
        """The commit that was just made: its branch is a file then, and no process is needed."""
        folder = self.root / ".git"
        head = (folder / "HEAD").read_text().strip()
        is_branch = head.startswith("ref: ")
        return (folder / head.removeprefix("ref: ")).read_text().strip() if is_branch else head


def over_git(type_: str, url: Path | str, **settings) -> SourceConfig:
    """Settings of a source over git; `branch` and `token` go to the connection."""
    connection = {"type": "git", "url": str(url)}
    connection |= {key: settings.pop(key) for key in ("branch", "token") if key in settings}
    return SourceConfig.model_validate({"id": "source", "type": type_, "connection": connection, **settings})


def over_folder(type_: str, path: Path, **settings) -> SourceConfig:
    """Settings of a source over a folder."""
    connection = {"type": "local", "path": path}
    return SourceConfig.model_validate({"id": "source", "type": type_, "connection": connection, **settings})


def listed(source: SourceConfig, cache: Path, memory: ListingMemory | None = None) -> dict[str, Item]:
    """The listing, by uri; fails if a uri comes twice."""
    with open_source(source, cache=cache, memory=memory) as opened:
        items = list(opened.discover())
    by_uri = {item.uri: item for item in items}
    assert len(by_uri) == len(items)
    return by_uri


def read(source: SourceConfig, cache: Path) -> dict[str, Document]:
    """Every document that is not skipped in the listing, by uri."""
    with open_source(source, cache=cache) as opened:
        return {item.uri: opened.fetch(item) for item in list(opened.discover()) if item.skip is None}

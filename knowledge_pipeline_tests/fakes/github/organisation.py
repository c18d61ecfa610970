"""A fake GitHub with many repositories of one owner, each with its code, pull requests and issues.

with GithubOrganisation(tmp_path) as github:
    engine = github.host("engine", {"main.py": "x = 1"})
    engine.pull("Faster parser", "It was slow.")
    github.commit("acme/engine", {"main.py": "x = 2", "old.py": None})
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from knowledge_pipeline_tests.fakes.github.graphql import Answerer
from knowledge_pipeline_tests.fakes.github.records import Record, Repository
from knowledge_pipeline_tests.fakes.github.server import Fault, GithubServer, Query

Files = Mapping[str, str | None]
"""Texts by path; None: the file is gone."""

_IDS_EACH = 100_000  # node ids of one repository


class GithubOrganisation(GithubServer):
    """A context manager; its addresses are those of GitHub Enterprise Server."""

    def __init__(self, folder: Path, login: str = "acme") -> None:
        super().__init__(repository=f"{login}/-", enterprise=True)
        self.login, self.repositories, self._folder = login, folder, folder
        self.hosted: dict[str, Answerer] = {}  # by full name
        self._count = 0
        self._owners = self.answerer
        self._people = self.repository.people  # of all repositories
        self._owners.own(login)
        _git(["init", "-q", "--bare", "-b", "main", "--template=", str(folder / ".empty")])

    def host(self, name: str, files: Files, **facts: Any) -> Repository:
        """A new repository with one commit. `facts`: of the listing, as `isArchived`."""
        full_name = f"{self.login}/{name}"
        self._count += 1
        repository = Repository(full_name, first_id=self._count * _IDS_EACH)
        repository.people = self._people
        shutil.copytree(self._folder / ".empty", self._path(full_name))
        self.commit(full_name, files)
        with self._lock:
            self.hosted[full_name] = Answerer(repository)
            self.hosted[full_name].owners = self._owners.owners
            self._owners.own(self.login, name, url=f"{self.address}/{full_name}", **facts)
        return repository

    def show_email(self, login: str, email: str) -> None:
        """The address that somebody shows."""
        self._owners.repository.address(login, email)

    def of(self, full_name: str) -> Repository:
        return self.hosted[full_name].repository

    def commit(
        self, full_name: str, files: Files, message: str = "Change", when: int = 1_700_000_000
    ) -> None:
        """One commit on the main branch, in one process of git."""
        path = self._path(full_name)
        person = f"Ada Lovelace <ada@example.org> {when} +0000"
        lines = [b"commit refs/heads/main", f"committer {person}".encode(), _data(message)]
        if (path / "refs/heads/main").exists():
            lines.append(b"from refs/heads/main^0")
        for name, text in files.items():
            lines += (
                [f"D {name}".encode()] if text is None else [f"M 100644 inline {name}".encode(), _data(text)]
            )
        _git(["fast-import", "--quiet"], cwd=path, stdin=b"\n".join([*lines, b""]))

    def read_head(self, full_name: str) -> str:
        """The newest commit of the main branch."""
        return (self._path(full_name) / "refs/heads/main").read_text().strip()

    def rename(self, full_name: str, name: str) -> str:
        """The new full name; nothing is at the old one."""
        renamed = f"{self.login}/{name}"
        with self._lock:
            self._path(full_name).rename(self._path(renamed))
            self.hosted[renamed] = self.hosted.pop(full_name)
            self.of(renamed).full_name = renamed
            self._listed(full_name).update(nameWithOwner=renamed, url=f"{self.address}/{renamed}")
        return renamed

    def archive(self, full_name: str) -> None:
        """Make a repository one that only can be read."""
        with self._lock:
            self._listed(full_name)["isArchived"] = True

    def remove(self, full_name: str) -> None:
        """Delete a repository."""
        with self._lock:
            del self.hosted[full_name]
            self._owners.owners[self.login]["repositories"].remove(self._listed(full_name))
            shutil.rmtree(self._path(full_name))

    def _answered(
        self, verb: str, path: str, authorization: str, asked: Record, fault: Fault, query: Query
    ) -> tuple[Fault, int]:
        self.answerer = self._find(path, asked.get("variables") or {})
        self.repository = self.answerer.repository
        return super()._answered(verb, path, authorization, asked, fault, query)

    def _find(self, path: str, variables: Record) -> Answerer:
        """Who answers: the repository that is named, or that has the node."""
        full_name = "{owner}/{name}".format_map(variables) if "name" in variables else ""
        if path.startswith(f"{self.prefix}/repos/"):
            full_name = "/".join(path.removeprefix(f"{self.prefix}/repos/").split("/")[:2])
        if full_name:
            return self.hosted.get(full_name) or self._gone(full_name)
        node = variables.get("id") or ""
        holders = (
            each for each in self.hosted.values() if node in self._people or each.repository.by_id(node)
        )
        is_about_people = set(variables.get("ids") or ()) & self._people.keys()
        return next(
            holders if node else iter(self.hosted.values()) if is_about_people else iter(()), self._owners
        )

    def _gone(self, full_name: str) -> Answerer:
        answerer = Answerer(Repository(full_name))
        answerer.hidden, answerer.owners = True, self._owners.owners
        return answerer

    def _listed(self, full_name: str) -> Record:
        return next(each for each in self._owners.list_owned() if each["nameWithOwner"] == full_name)

    def _path(self, full_name: str) -> Path:
        return self._folder / f"{full_name}.git"


def _data(text: str) -> bytes:
    content = text.encode()
    return f"data {len(content)}\n".encode() + content


def _git(arguments: list[str], *, cwd: Path | None = None, stdin: bytes = b"") -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment = kept | {"GIT_CONFIG_GLOBAL": os.devnull}
    subprocess.run(
        ["git", *arguments], cwd=cwd, input=stdin, check=True, capture_output=True, env=environment
    )

"""Git repositories as origins: their files at each place that git reads, and their commits."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, ClassVar

from knowledge_pipeline_tests.connectors.repositories import START, Repository
from knowledge_pipeline_tests.fakes.git_server import GitFault, GitServer
from knowledge_pipeline_tests.fakes.github.server import GithubServer
from knowledge_pipeline_tests.fakes.gitlab.server import GitlabServer
from knowledge_pipeline_tests.stages.lives.files import FilePlace, changed, elsewhere, emptied
from knowledge_pipeline_tests.stages.lives.origin import Fault, Origin

_LOCAL_FAULTS = dict.fromkeys(
    ("denied", "forbidden", "unavailable", "unreachable", "busy"), "git reads it from this machine"
)


class RepositoryPlace(FilePlace):
    """A repository; every change of a file is a commit."""

    cannot: Mapping[str, str] = {}

    def __init__(self, root: Path) -> None:
        self.repository = Repository(root / "work")

    @property
    @abstractmethod
    def connection(self) -> dict[str, Any]:
        """As `knowledge.yaml` has it."""

    def write(self, path: str, content: bytes) -> None:
        self.repository.write({path: content}).commit()

    def move(self, path: str, to: str) -> None:
        (self.repository.root / to).parent.mkdir(exist_ok=True)
        self.repository.git("mv", path, to)
        self.repository.commit()

    def delete(self, path: str) -> None:
        (self.repository.root / path).unlink()
        self.repository.commit()


class RepositoryFolder(RepositoryPlace):
    """A work tree of this machine, whose commits are read."""

    cannot: ClassVar[Mapping[str, str]] = {
        **_LOCAL_FAULTS,
        "partial": "its objects are read as they are asked for",
    }

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.names = [str(self.repository.root)]
        self.faults = {"missing": lambda: elsewhere(self.repository.root)}

    @property
    def connection(self) -> dict[str, Any]:
        return {"type": "local", "path": str(self.repository.root)}


class RepositoryUrl(RepositoryPlace):
    """A repository of this machine, fetched from its `file://` URL."""

    cannot = _LOCAL_FAULTS

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.names = [str(self.repository.root)]
        self.faults = {
            "missing": lambda: elsewhere(self.repository.root),
            "partial": lambda: emptied(self.repository.root / ".git/objects"),
        }

    @property
    def connection(self) -> dict[str, Any]:
        return {"type": "git", "url": f"file://{self.repository.root}"}


class ServedRepository(RepositoryPlace):
    """A repository behind HTTP, with a token: of a bare git server, GitHub or GitLab."""

    def __init__(self, root: Path, server: Any, path: str) -> None:
        super().__init__(root)
        self._server, self._path = server, path
        served = root / "served" / f"{path}.git"
        served.parent.mkdir(parents=True)
        served.symlink_to(self.repository.root / ".git")
        self.secrets, self.names = [server.token], [path]
        self.faults = {
            "missing": lambda: self._answer(404),
            "denied": lambda: changed(server, token="another"),
            "forbidden": lambda: self._answer(403),
            "unavailable": lambda: self._answer(503),
            "unreachable": server.refusing_connections,
            "partial": lambda: self._answer(503, only="git-upload-pack"),
            "busy": lambda: self._answer(429, times=2),
        }

    def _answer(self, status: int, only: str = "", times: int | None = None) -> AbstractContextManager[None]:
        return changed(self._server, git_fault=GitFault(status, only, times))

    def __enter__(self) -> ServedRepository:
        self._server.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.__exit__(*error)


class GitPlace(ServedRepository):
    """Git's own server."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, GitServer(root / "served", token="git-" + "token-canary"), "octo/engine")

    @property
    def connection(self) -> dict[str, Any]:
        return {"type": "git", "url": f"{self._server.url}/{self._path}.git", "token": self.secrets[0]}


class GithubPlace(ServedRepository):
    """GitHub, whose files are read by git."""

    def __init__(self, root: Path) -> None:
        server = GithubServer()
        server.repositories = root / "served"
        super().__init__(root, server, server.repository.full_name)

    @property
    def connection(self) -> dict[str, Any]:
        told = {"type": "github", "repository": self._path, "token": self.secrets[0]}
        return told | {"url": self._server.url}


class GitlabPlace(ServedRepository):
    """GitLab, whose files are read by git."""

    def __init__(self, root: Path) -> None:
        server = GitlabServer()
        server.repositories = root / "served"
        super().__init__(root, server, server.project.full_path)

    @property
    def connection(self) -> dict[str, Any]:
        told = {"type": "gitlab", "project": self._path, "token": self.secrets[0]}
        return told | {"url": self._server.url}


class WikiPlace(ServedRepository):
    """The wiki of a repository of GitHub, which is a repository of its own."""

    def __init__(self, root: Path) -> None:
        server = GithubServer()
        server.repositories = root / "served"
        super().__init__(root, server, f"{server.repository.full_name}.wiki")

    @property
    def connection(self) -> dict[str, Any]:
        told = {"type": "github", "repository": self._path.removesuffix(".wiki"), "token": self.secrets[0]}
        return told | {"url": self._server.url, "wiki": True}


class CommitOrigin(Origin):
    """The commits of a repository. A change of one is a forced push of it and all that follow."""

    def __init__(self, place: RepositoryPlace) -> None:
        self._place = place
        self._commits: dict[str, tuple[str, str]] = {}  # title and text, by key
        self._count = 0
        unknown = {"empty": "a branch has a commit", "spoil": "a commit is whole, or git says so"}
        self.cannot = {**place.cannot, **unknown}  # type: ignore[misc]  # by the place
        self.errors = place.errors  # type: ignore[misc]

    def declare(self) -> dict[str, Any]:
        return {"type": "git_history", "connection": self._place.connection}

    @property
    def names(self) -> Sequence[str]:
        return self._place.names

    @property
    def secrets(self) -> Sequence[str]:  # type: ignore[override]
        return self._place.secrets

    @property
    def faults(self) -> Mapping[str, Fault]:
        return self._place.faults

    def create(self, title: str, text: str) -> str:
        self._count += 1
        key = f"file-{self._count}.txt"  # that the commit adds
        self._commits[key] = title, text
        self._push()
        return key

    def edit(self, key: str, text: str) -> None:
        self._commits[key] = self._commits[key][0], text
        self._push()

    def rename(self, key: str, title: str) -> str:
        self._commits[key] = title, self._commits[key][1]
        self._push()
        return key

    def remove(self, key: str) -> None:
        del self._commits[key]
        self._push()

    def hide(self, key: str) -> dict[str, Any]:
        return {"exclude": [f"/{key}"]}

    def _push(self) -> None:
        """The branch has these commits, and no others."""
        stream = ["reset refs/heads/main\n"]
        for number, (path, (title, text)) in enumerate(self._commits.items(), start=1):
            when = f"{START + int(path.split('-')[1].split('.')[0]) * 3600} +0000"
            message = f"{title}\n\n{text}\n"
            stream += [
                f"commit refs/heads/main\nmark :{number}\n",
                f"author Ada Byron <ada@example.org> {when}\n",
                f"committer Ada Byron <ada@example.org> {when}\n",
                f"data {len(message.encode())}\n{message}",
                f"from :{number - 1}\n" if number > 1 else "",
                f"M 100644 inline {path}\ndata 5\nline\n\n",
            ]
        self._place.repository.git("fast-import", "--quiet", "--force", stdin="".join(stream).encode())

    def __enter__(self) -> CommitOrigin:
        self._place.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._place.__exit__(*error)

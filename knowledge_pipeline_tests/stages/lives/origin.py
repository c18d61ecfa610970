"""What an origin of documents must be able to do, to be given a life by `script`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar

from knowledge_pipeline.errors import KnowledgeError, SourceRefused, SourceUnavailable

Fault = Callable[[], AbstractContextManager[object]]

FAULTS: Mapping[str, type[KnowledgeError] | None] = {
    "missing": SourceRefused,  # there is no such place
    "denied": SourceRefused,  # 401: nobody knows us
    "forbidden": SourceRefused,  # 403: we may not
    "unavailable": SourceUnavailable,  # 503
    "unreachable": SourceUnavailable,  # nobody listens
    "partial": SourceUnavailable,  # it breaks off midway
    "busy": None,  # 429 with Retry-After: the refresh waits, and succeeds
}
"""What may be wrong with an origin for a while, and the error that a refresh then ends with."""

CHANGES = ("edit", "rename", "remove", "empty", "hide", "spoil")
"""What may happen to its documents, each a method of `Origin`; "empty" is to remove all of them."""


class Origin(ABC):
    """A place that documents are read from; a context manager while it is open.

    A key names a document for the methods here, and is nothing else.
    """

    cannot: ClassVar[Mapping[str, str]] = {}
    """The changes and faults that this kind of origin does not know, each with the reason."""

    errors: ClassVar[Mapping[str, type[KnowledgeError] | None]] = {}
    """Where a fault ends otherwise than `FAULTS` says."""

    secrets: Sequence[str] = ()
    """What must not be in any file, log or error."""

    @abstractmethod
    def declare(self) -> dict[str, Any]:
        """The source in `knowledge.yaml`, without its id."""

    @property
    @abstractmethod
    def names(self) -> Sequence[str]:
        """What it is known by; an error has one of them."""

    @abstractmethod
    def create(self, title: str, text: str) -> str:
        """A new document; its key."""

    @abstractmethod
    def edit(self, key: str, text: str) -> None:
        """Give a document another text."""

    def rename(self, key: str, title: str) -> str:
        """Give a document another title, or name; its key after that."""
        raise NotImplementedError

    @abstractmethod
    def remove(self, key: str) -> None:
        """Delete a document."""

    def hide(self, key: str) -> dict[str, Any]:
        """Keep a document, but out of what is read: settings that leave it out, or none where it moved."""
        raise NotImplementedError

    def show(self, key: str) -> None:  # noqa: B027 - settings alone hid it, as a rule
        """Undo what `hide` did to the document."""

    def spoil(self, key: str) -> None:
        """Make one document unreadable."""
        raise NotImplementedError

    def restore(self, key: str, text: str) -> None:
        """Make it readable again, with a text."""
        self.edit(key, text)

    def let_time_pass(self) -> None:  # noqa: B027 - most have no clock that matters
        """What changes from now on does so long after what changed before."""

    @property
    @abstractmethod
    def faults(self) -> Mapping[str, Fault]:
        """What can be wrong with it, by the names of `FAULTS`; wrong while the context lasts."""

    def can(self, what: str) -> bool:
        """Whether it knows a change or a fault."""
        return what not in self.cannot

    def __enter__(self) -> Origin:
        return self

    def __exit__(self, *_: object) -> None:  # noqa: B027 - many hold nothing open
        """Free what was opened."""


def require_complete(origin: Origin) -> None:
    """It knows every change and every fault, or says why not."""
    assert all(origin.cannot.values())
    assert origin.cannot.keys() <= {*CHANGES, *FAULTS}
    assert set(origin.faults) == {name for name in FAULTS if origin.can(name)}

"""Damaged files of tables: which index cannot be read, and what to say.

What an index knows stands in the rows as well, so that a table without it answers the same, except that only
the index of words finds rows by words.
"""

# Lance's signatures name types of pandas, which is not installed.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

import errno
import threading
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from knowledge_pipeline.errors import KnowledgeError, StoreError
from knowledge_pipeline.store.lance_storage import MOST_INDEX_BYTES

LANCE_ERRORS = (OSError, RuntimeError, ValueError)
"""What Lance raises where a table is broken or gone."""
MEND = "run `knowledge maintain --repair`"
_TOO_MANY_FILES = f"os error {errno.EMFILE}"  # as Rust writes it
_OF_THE_MACHINE = tuple(f"os error {code}" for code in (errno.EMFILE, errno.ENOSPC, errno.EIO, errno.EACCES))
_OF_WRONG_VALUES = (ArithmeticError, AttributeError, LookupError, TypeError)  # as zeroed bytes may read
_OF_LANCE = ("LanceError", "External error", "lance", "/rust/")
_UNANSWERED = (
    "Generic S3 error",
    "Generic GCS error",
    "Generic MicrosoftAzure error",
    "error sending request",
)
_NOT_RESIDENT = "not fully resident"  # an index was read whole, and is larger than the cache
_PROBE_PAUSE_S = 60.0  # a question that fails for another reason must not read all indexes each time
_GROWS_IN_MEMORY = 4  # times as large as on the disk


def explain_lance_error(error: BaseException) -> str:
    """The end of a sentence: why a released version cannot be read, and what to do."""
    if _TOO_MANY_FILES in str(error):
        return ", because this process has too many files open: raise its limit (`ulimit -n`), or restart it"
    return f" ({type(error).__name__}): {MEND} and `knowledge refresh`, or `knowledge rollback`"


def is_damage(error: BaseException) -> bool:
    """Whether an error speaks of the files themselves, and not of this process, or of a bucket's silence."""
    if getattr(error, "errno", None) is not None:
        return False  # of the operating system: Lance's errors have no number
    is_known = isinstance(error, LANCE_ERRORS) or type(error).__name__ == "PanicException"
    return is_known and not any(sign in str(error) for sign in (*_OF_THE_MACHINE, *_UNANSWERED))


@contextmanager
def explain_damage(what: str) -> Generator[None]:
    """Raise `StoreError` with one sentence where Lance cannot read a file of what is read inside."""
    try:
        yield
    except BaseException as error:  # Rust's panic is no Exception
        is_of_lance = not isinstance(error, Exception) or any(sign in str(error) for sign in _OF_LANCE)
        if not (is_of_lance and is_damage(error)):
            raise
        raise StoreError(
            f"a table of {what} cannot be read ({type(error).__name__}): {MEND}, then `knowledge refresh`; "
            "`knowledge verify` names the table"
        ) from error


@contextmanager
def explain_loss(what: str, table: str) -> Generator[None]:
    """Raise `StoreError` with one sentence where a table that nothing can make anew cannot be read inside."""
    try:
        yield
    except KnowledgeError:
        raise
    except BaseException as error:  # Rust's panic is no Exception
        if not (is_damage(error) or isinstance(error, _OF_WRONG_VALUES)):
            raise
        raise build_loss(what, table, f"cannot be read ({type(error).__name__})") from error


def build_loss(what: str, table: str, problem: str) -> StoreError:
    """The error about a table that nothing can make anew."""
    return StoreError(
        f"{what}, {table}.lance of the store, {problem}: restore that folder from a backup; `knowledge "
        "verify` tells whether all is whole then"
    )


def describe_unforeseen(error: BaseException) -> str:
    """The sentence for an error of Lance that nobody has explained; empty for any other."""
    if not any(sign in str(error) for sign in _OF_LANCE) or not is_damage(error):
        return ""
    return (
        f"a file of the store cannot be read ({type(error).__name__}): `knowledge verify` names the table, "
        "and what mends it"
    )


@dataclass(slots=True)
class IndexProbe:
    """Looks for damaged indexes of one version, once in a while: it reads them whole. For threads."""

    _lock: threading.Lock = field(default_factory=threading.Lock)
    _damaged: Mapping[str, str] = field(default_factory=dict[str, str])
    _next_at: float = float("-inf")

    def find_damaged(self, dataset: Any) -> Mapping[str, str]:
        """As `find_damaged_indexes`, or what it found last."""
        with self._lock:
            if time.monotonic() >= self._next_at:
                self._damaged = find_damaged_indexes(dataset)
                self._next_at = time.monotonic() + _PROBE_PAUSE_S
            return self._damaged


@dataclass(slots=True)
class IndexDamage:
    """What is known of damaged indexes of one version of a table; it grows as searches meet them."""

    columns: Mapping[str, str] = field(default_factory=dict[str, str])  # -> the kind of error
    sound: Any = None  # the `IndexReader` that reads without these indexes
    probe: IndexProbe = field(default_factory=IndexProbe)

    def describe(self, space: str) -> str:
        """What a search lacks, and what mends it; empty where nothing is damaged."""
        if not self.columns:
            return ""
        columns = ", ".join(f"{column} ({kind})" for column, kind in sorted(self.columns.items()))
        return f"the index of {columns} in {space!r} cannot be read, and searches do without it: {MEND}"


def find_damaged_indexes(dataset: Any) -> dict[str, str]:
    """Columns whose index cannot be read, each with the kind of error; all indexes are read whole."""
    kinds = {index.field_names[0]: read_index(dataset, index)[1] for index in dataset.describe_indices()}
    return {column: kind for column, kind in kinds.items() if kind}


def read_index(dataset: Any, index: Any) -> tuple[Any, str]:
    """Read an index whole: a dataset that holds it, as far as there is room, and the kind of error."""
    from knowledge_pipeline.store.lance_internals import open_again  # and numpy: a refresh may need neither

    size = _GROWS_IN_MEMORY * (index.total_size_bytes or 0)
    reader: Any = open_again(dataset, index_bytes=min(size, MOST_INDEX_BYTES))
    try:
        reader.prewarm_index(index.name)
    except BaseException as error:  # noqa: BLE001 - Rust's panic is no Exception
        if _NOT_RESIDENT not in str(error):
            return reader, describe_damage(error)
    return reader, ""


def describe_damage(error: BaseException) -> str:
    """The kind of an error that speaks of damaged files; raises any other."""
    if not is_damage(error):
        raise error
    return type(error).__name__

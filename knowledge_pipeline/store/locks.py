"""Locks between processes: one writer of an index table, one refresh of a source.

Processes of one machine use files, which the operating system releases when a process dies. Those that share
an object store use leases, by conditional writes alone: `If-None-Match: *` creates a small object, and every
later change uses `If-Match` on what was read, so that exactly one of several processes wins. A holder that
was paused, and goes on, must not write: `confirm_lock` renews the lease right before each commit.
"""

from __future__ import annotations

import json
import logging
import os
import re
import socket
import threading
import time
import uuid
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Literal

import filelock

from knowledge_pipeline.errors import Busy, KnowledgeError
from knowledge_pipeline.store.lance_storage import StorePath
from knowledge_pipeline.store.object_store import ObjectPath, call_store, open_client

EXPIRES_S = 30.0
RENEW_INTERVAL_S = 8.0
_MIN_POLL_S, _MAX_POLL_S = 0.1, 1.0

ObjectVersion = dict[str, str]
"""Identifies one write of an object: S3 and Azure use "e_tag", Google "version"."""

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Lease:
    """One holder's lease on one object; one process acquires, renews and releases it.

    The object names its holder and when it expires; the holder renews it from a thread. The lease of a killed
    process may be taken over once it has expired. The store's clock determines its age, so that the clocks of
    two holders are never compared. Whoever takes one over must agree with the store's clock within
    `EXPIRES_S - RENEW_INTERVAL_S`.
    """

    path: ObjectPath
    description: str  # what is locked, in words
    expires_s: float = field(default_factory=lambda: EXPIRES_S)
    renew_interval_s: float = field(default_factory=lambda: RENEW_INTERVAL_S)
    owner: str = field(default_factory=lambda: f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex}")
    _version: ObjectVersion = field(default_factory=dict[str, str])  # the object as this holder knows it
    _writing: threading.Lock = field(default_factory=threading.Lock)  # of renewals by two threads
    _released: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    is_lost: bool = False  # whether another process took it, as far as this one has noticed

    def acquire(self, timeout_s: float) -> bool:
        """Wait at most `timeout_s` seconds for the lease; 0 tries once. False if others held it all along.

        Raises:
            StoreError: the store refuses us.
            StoreUnavailable: it did not answer.
        """
        until, pause_s = time.monotonic() + timeout_s, _MIN_POLL_S
        while not self._try_acquire():
            left_s = until - time.monotonic()
            if left_s <= 0:
                return False
            time.sleep(min(pause_s, left_s))
            pause_s = min(2 * pause_s, _MAX_POLL_S)
        name = f"lease on {self.description}"
        self._thread = threading.Thread(target=self._renew_until_released, name=name, daemon=True)
        self._thread.start()
        return True

    def release(self) -> None:
        """Release it, so that the next process can take it at once.

        Raises `Busy`: it was lost because it could not be renewed, and another process may have it.
        """
        self._released.set()
        if self._thread:
            self._thread.join()
        self.is_lost = self.is_lost or not self._write(self._version, free=True)
        if self.is_lost:
            raise self._to_error()

    def confirm(self) -> None:
        """Renew it now, so that nobody else can take it for `expires_s` from here.

        Raises:
            Busy: it was lost, and another process may have written.
            StoreUnavailable: the store did not answer.
        """
        with self._writing:
            self.is_lost = self.is_lost or not self._write(self._version)
        if self.is_lost:
            raise self._to_error()

    def _to_error(self) -> Busy:
        return Busy(
            f"lost the lease on {self.description}: this process could not renew it in the object store "
            f"for {self.expires_s:g} s; run it again"
        )

    def _try_acquire(self) -> bool:
        lease = self._read()
        if lease is None:
            return self._write("create")
        content, version, age_s = lease
        if content.get("owner") == self.owner:  # the response to this holder's own write was lost
            self._version = version
            return True
        if not content.get("free") and age_s < float(content.get("expires_s", self.expires_s)):
            return False
        if not content.get("free"):
            _log.warning("taking over %s from a process that died", self.description)
        self._version = version
        return self._write(version)

    def _read(self) -> tuple[dict[str, Any], ObjectVersion, float] | None:
        """What the object says, its version, and its age in seconds; None where there is none yet."""
        client = open_client(self.path.store)
        try:
            response = call_store(self.path.store, lambda: client.get(self.path.key))
        except FileNotFoundError:
            return None
        try:
            content: dict[str, Any] = json.loads(bytes(response.bytes()))
        except ValueError:
            content = {}
        age_s = time.time() - response.meta["last_modified"].timestamp()
        return content, _parse_version(response.meta), age_s

    def _write(self, mode: ObjectVersion | Literal["create"], *, free: bool = False) -> bool:
        """Create the object, or replace the version that was read; False where others wrote first."""
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        # without the nonce, two writes of one holder would have one ETag
        holder = {"owner": self.owner, "free": free, "expires_s": self.expires_s, "nonce": uuid.uuid4().hex}
        client, content = open_client(self.path.store), json.dumps(holder).encode()
        try:
            put = lambda: client.put(self.path.key, content, mode=mode, use_multipart=False)  # noqa: E731
            self._version = _parse_version(call_store(self.path.store, put))
        except (AlreadyExistsError, PreconditionError, FileNotFoundError):
            current = self._read()  # a write that is sent twice refuses itself
            if current is None or current[0].get("nonce") != holder["nonce"]:
                return False
            self._version = current[1]
        return True

    def _renew_until_released(self) -> None:
        renewed = time.monotonic()
        while not self._released.wait(self.renew_interval_s):
            try:
                with self._writing:
                    if self.is_lost or not self._write(self._version):
                        break
                renewed = time.monotonic()
            except KnowledgeError:
                if time.monotonic() - renewed > self.expires_s:
                    break
        else:
            return
        self.is_lost = True
        _log.error("lost the lease on %s: another process may be working on it", self.description)


def _parse_version(meta: Any) -> ObjectVersion:
    return {name: meta[name] for name in ("e_tag", "version") if meta[name]}


WARN_AFTER_S = 2.0
"""Most locks are held for less: a longer wait is logged as a warning."""

_SOURCE_STAGES = ("snapshot", "chunks", "embeddings", "facts")
_INDEX_STAGES = ("index", "graph", "releases.lance")
_held_leases: dict[str, Lease] = {}  # of this process, by the lock's address


def acquire_lock(
    folder: StorePath, name: str, *, timeout_s: float, description: str = ""
) -> AbstractContextManager[None]:
    """Hold the lock `name`, waiting at most `timeout_s` seconds for it; 0 tries once.

    The description says what is locked, in words: "source 'docs'"; by default the name in quotes.

    Raises `Busy`: another process held it all that time; or, on an object store, the lease was lost.
    """
    path, description = _lock_path(folder, name), description or repr(name)
    if isinstance(path, ObjectPath):
        return _hold_lease(path, timeout_s, description)
    return _hold_file_lock(path, timeout_s, description)


def confirm_lock(table: StorePath) -> None:
    """Make sure that this process still has the lock under which it writes a table, if it took one.

    Costs a request where the table is in an object store, and nothing elsewhere: a paused process keeps the
    lock on a file.

    Raises `Busy`: the lock was lost, and another process may have written.
    """
    if not isinstance(table, ObjectPath) or (name := _table_lock(table.key)) is None:
        return
    lock = _lock_path(ObjectPath("locks", table.store), name)
    if lease := _held_leases.get(str(lock)):
        lease.confirm()


def is_locked(path: Path) -> bool:
    """Whether a process holds the lock on a file, which it does until it ends, however that comes."""
    if not path.exists():
        return False
    with suppress(filelock.Timeout), filelock.FileLock(path, timeout=0):
        return False
    return True


def _table_lock(key: str) -> str | None:
    """The name of the lock of a table: of its source, of the index, or of the log."""
    stage, stem = key.partition("/")[0], PurePosixPath(key).stem
    if stage == "audiences":
        return f"permissions-{stem}"
    if stage in _SOURCE_STAGES:
        return f"source-{stem}"
    if stage in _INDEX_STAGES:
        return "index"
    return f"log-{stem}" if stage == "logs" else None


def _lock_path(folder: StorePath, name: str) -> StorePath:
    return folder / f"{re.sub(r'[^A-Za-z0-9._-]', '_', name)}.lock"


@contextmanager
def _hold_file_lock(path: Path, timeout_s: float, description: str) -> Generator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = filelock.FileLock(path)

    def try_acquire(wait_s: float) -> bool:
        with suppress(filelock.Timeout):
            lock.acquire(timeout=wait_s)
            return True
        return False

    _acquire_or_raise(try_acquire, timeout_s, description)
    try:
        yield
    finally:
        lock.release()


@contextmanager
def _hold_lease(path: ObjectPath, timeout_s: float, description: str) -> Generator[None]:
    lease = Lease(path, description)
    _acquire_or_raise(lease.acquire, timeout_s, description)
    _held_leases[str(path)] = lease
    try:
        yield
    except BaseException as error:
        with suppress(Exception):  # the error inside is the one to report
            lease.release()
        if lease.is_lost and isinstance(error, (OSError, RuntimeError, ValueError)):
            lease.confirm()  # files that others removed meanwhile: Lance's error would not say so
        raise
    else:
        lease.release()
    finally:
        del _held_leases[str(path)]


def _acquire_or_raise(try_acquire: Callable[[float], bool], timeout_s: float, description: str) -> None:
    if try_acquire(min(timeout_s, WARN_AFTER_S)):
        return
    rest_s = timeout_s - WARN_AFTER_S
    if rest_s > 0:
        _log.warning("another process is working on %s: waiting for it, at most %g s", description, rest_s)
        if try_acquire(rest_s):
            return
    raise Busy(
        f"another process is working on {description} and did not finish within {timeout_s:g} s: "
        "try again when it is done"
    )

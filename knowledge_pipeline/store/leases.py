"""Locks between machines that share an object store: leases, by conditional writes alone.

One small object for each lock names its holder and when it expires. `If-None-Match: *` creates it, and
every later change uses `If-Match` on what was read, so that exactly one of several processes wins. The
holder renews it from a thread; the lease of a killed process may be taken over once it has expired.

A holder that was paused for longer than that, and goes on, must not write: `confirm` renews the lease right
before each commit, which fails if anybody has had it since.

The store's clock determines the age of a lease, so that the clocks of two holders are never compared.
Whoever takes one over must agree with the store's clock within `EXPIRES_S - RENEW_INTERVAL_S`.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import threading
import time
import uuid
from dataclasses import dataclass, field
from typing import Any, Literal

from knowledge_pipeline.errors import Busy, KnowledgeError
from knowledge_pipeline.store.object_store import ObjectPath, call_store, open_client

EXPIRES_S = 30.0
RENEW_INTERVAL_S = 8.0
_MIN_POLL_S, _MAX_POLL_S = 0.1, 1.0

ObjectVersion = dict[str, str]
"""Identifies one write of an object: S3 and Azure use "e_tag", Google "version"."""

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Lease:
    """One holder's lease on one object; one process acquires, renews and releases it."""

    path: ObjectPath
    description: str  # what is locked, in words
    expires_s: float = field(default_factory=lambda: EXPIRES_S)
    renew_interval_s: float = field(default_factory=lambda: RENEW_INTERVAL_S)
    owner: str = field(default_factory=lambda: f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex}")
    _version: ObjectVersion = field(default_factory=dict[str, str])  # the object as this holder knows it
    _writing: threading.Lock = field(default_factory=threading.Lock)  # of renewals by two threads
    _released: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _lost: bool = False

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

        Raises:
            Busy: it was lost because it could not be renewed, and another process may have it.
        """
        self._released.set()
        if self._thread:
            self._thread.join()
        self._lost = self._lost or not self._write(self._version, free=True)
        if self._lost:
            raise self._to_error()

    def confirm(self) -> None:
        """Renew it now, so that nobody else can take it for `expires_s` from here.

        Raises:
            Busy: it was lost, and another process may have written.
            StoreUnavailable: the store did not answer.
        """
        with self._writing:
            self._lost = self._lost or not self._write(self._version)
        if self._lost:
            raise self._to_error()

    @property
    def is_lost(self) -> bool:
        """Whether another process took it, as far as this one has noticed."""
        return self._lost

    def _to_error(self) -> Busy:
        return Busy(
            f"lost the lease on {self.description}: this process could not renew it in the object store "
            f"for {self.expires_s:g} s; run it again"
        )

    def _try_acquire(self) -> bool:
        found = self._read()
        if found is None:
            return self._write("create")
        held, known, age_s = found
        if held.get("owner") == self.owner:  # the response to this holder's own write was lost
            self._version = known
            return True
        if not held.get("free") and age_s < float(held.get("expires_s", self.expires_s)):
            return False
        if not held.get("free"):
            _log.warning("taking over %s from a process that died", self.description)
        self._version = known
        return self._write(known)

    def _read(self) -> tuple[dict[str, Any], ObjectVersion, float] | None:
        """What the object says, its version, and its age in seconds; None where there is none yet."""
        client = open_client(self.path.store)
        try:
            response = call_store(self.path.store, lambda: client.get(self.path.key))
        except FileNotFoundError:
            return None
        try:
            held: dict[str, Any] = json.loads(bytes(response.bytes()))
        except ValueError:
            held = {}
        age_s = time.time() - response.meta["last_modified"].timestamp()
        return held, _parse_version(response.meta), age_s

    def _write(self, mode: ObjectVersion | Literal["create"], *, free: bool = False) -> bool:
        """Create the object, or replace the version that was read; False where others wrote first."""
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        # without the nonce, two writes of one holder would have one ETag
        held = {"owner": self.owner, "free": free, "expires_s": self.expires_s, "nonce": uuid.uuid4().hex}
        client, content = open_client(self.path.store), json.dumps(held).encode()
        try:
            put = lambda: client.put(self.path.key, content, mode=mode, use_multipart=False)  # noqa: E731
            self._version = _parse_version(call_store(self.path.store, put))
        except (AlreadyExistsError, PreconditionError, FileNotFoundError):
            found = self._read()  # a write that is sent twice refuses itself
            if found is None or found[0].get("nonce") != held["nonce"]:
                return False
            self._version = found[1]
        return True

    def _renew_until_released(self) -> None:
        renewed = time.monotonic()
        while not self._released.wait(self.renew_interval_s):
            try:
                with self._writing:
                    if self._lost or not self._write(self._version):
                        break
                renewed = time.monotonic()
            except KnowledgeError:
                if time.monotonic() - renewed > self.expires_s:
                    break
        else:
            return
        self._lost = True
        _log.error("lost the lease on %s: another process may be working on it", self.description)


def _parse_version(meta: Any) -> ObjectVersion:
    return {name: meta[name] for name in ("e_tag", "version") if meta[name]}

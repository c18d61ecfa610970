"""Locks between machines that share an object store: a lease, by conditional writes alone.

One small object for each lock says who holds it and for how long. It is made by `If-None-Match: *`, and
every later change is made by `If-Match` on what was read, so that of several takers exactly one wins. The
holder renews it from a thread; who was killed does not, and its lease may be taken once it has expired.

A lease is as old as the store says, so that the clocks of two holders are never compared; who takes one
over must agree with the store's clock within `EXPIRES_S - RENEWED_S`.
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
from typing import Any

from knowledge_pipeline.errors import Busy, KnowledgeError
from knowledge_pipeline.store.object_store import ObjectPath, call_store, open_client

EXPIRES_S = 30.0
RENEW_INTERVAL_S = 8.0
_MIN_POLL_S, _MAX_POLL_S = 0.1, 1.0

ObjectVersion = dict[str, str]
"""What tells one write of an object from the next: S3 and Azure go by "e_tag", Google by "version"."""

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Lease:
    """One holder's lease on one object; taken, renewed and given back by one process."""

    path: ObjectPath
    description: str  # what is locked, in words
    expires_s: float = field(default_factory=lambda: EXPIRES_S)
    renew_interval_s: float = field(default_factory=lambda: RENEW_INTERVAL_S)
    owner: str = field(default_factory=lambda: f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex}")
    _version: ObjectVersion = field(default_factory=dict[str, str])  # the object as this holder knows it
    _released: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _lost: bool = False

    def acquire(self, timeout_s: float) -> bool:
        """Take it, waiting at most `timeout_s` seconds; 0 tries once. False if others held it all along.

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
        """Give it back, for the next to take at once.

        Raises:
            Busy: it was lost meanwhile, because it could not be renewed, and another may have it.
        """
        self._released.set()
        if self._thread:
            self._thread.join()
        if self._lost or not self._rewrite(free=True):
            raise Busy(
                f"the hold on {self.description} was lost, because the object store could not be told for "
                f"{self.expires_s:g} s that this process is alive: run it again"
            )

    def _try_acquire(self) -> bool:
        found = self._read()
        if found is None:
            return self._write(mode="create")
        held, known, age_s = found
        if held.get("owner") == self.owner:  # an answer to this holder's own write was lost on the way
            self._version = known
            return True
        if not held.get("free") and age_s < float(held.get("expires_s", self.expires_s)):
            return False
        if not held.get("free"):
            _log.warning("%s was held by a process that is gone: taking it over", self.description)
        self._version = known
        return self._rewrite()

    def _read(self) -> tuple[dict[str, Any], ObjectVersion, float] | None:
        """What the object says, its version, and its age in seconds; None where there is none yet."""
        client = open_client(self.path.store)
        try:
            answer = call_store(self.path.store, lambda: client.get(self.path.key))
        except FileNotFoundError:
            return None
        try:
            held = json.loads(bytes(answer.bytes()))
        except ValueError:
            held = {}
        age_s = time.time() - answer.meta["last_modified"].timestamp()
        return held, _parse_version(answer.meta), age_s

    def _rewrite(self, *, free: bool = False) -> bool:
        return self._write(mode=self._version, free=free)

    def _write(self, *, mode: Any, free: bool = False) -> bool:
        """Write what is held now; False where somebody wrote first."""
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
                if not self._rewrite():
                    break
                renewed = time.monotonic()
            except KnowledgeError:
                if time.monotonic() - renewed > self.expires_s:
                    break
        else:
            return
        self._lost = True
        _log.error("the hold on %s was lost: another process may be working on it", self.description)


def _parse_version(meta: Any) -> ObjectVersion:
    return {name: meta[name] for name in ("e_tag", "version") if meta[name]}

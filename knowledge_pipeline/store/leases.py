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
from knowledge_pipeline.store.object_store import Remote, client_of, told

EXPIRES_S = 30.0
RENEWED_S = 8.0
_FIRST_LOOK_S, _LONGEST_LOOK_S = 0.1, 1.0

Version = dict[str, str]
"""What tells one write of an object from the next: S3 and Azure go by "e_tag", Google by "version"."""

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Lease:
    """One holder's lease on one object; taken, renewed and given back by one process."""

    place: Remote
    about: str  # what is locked, in words
    expires_s: float = field(default_factory=lambda: EXPIRES_S)
    renewed_s: float = field(default_factory=lambda: RENEWED_S)
    owner: str = field(default_factory=lambda: f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex}")
    _known: Version = field(default_factory=dict[str, str])  # the object as this holder knows it
    _over: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _lost: bool = False

    def acquire(self, timeout_s: float) -> bool:
        """Take it, waiting at most `timeout_s` seconds; 0 tries once. False if others held it all along.

        Raises:
            StoreError: the store refuses us.
            StoreUnavailable: it did not answer.
        """
        until, pause_s = time.monotonic() + timeout_s, _FIRST_LOOK_S
        while not self._taken():
            left_s = until - time.monotonic()
            if left_s <= 0:
                return False
            time.sleep(min(pause_s, left_s))
            pause_s = min(2 * pause_s, _LONGEST_LOOK_S)
        name = f"lease on {self.about}"
        self._thread = threading.Thread(target=self._renew, name=name, daemon=True)
        self._thread.start()
        return True

    def release(self) -> None:
        """Give it back, for the next to take at once.

        Raises:
            Busy: it was lost meanwhile, because it could not be renewed, and another may have it.
        """
        self._over.set()
        if self._thread:
            self._thread.join()
        if self._lost or not self._replaced(free=True):
            raise Busy(
                f"the hold on {self.about} was lost, because the object store could not be told for "
                f"{self.expires_s:g} s that this process is alive: run it again"
            )

    def _taken(self) -> bool:
        found = self._read()
        if found is None:
            return self._put(mode="create")
        held, known, age_s = found
        if held.get("owner") == self.owner:  # an answer to this holder's own write was lost on the way
            self._known = known
            return True
        if not held.get("free") and age_s < float(held.get("expires_s", self.expires_s)):
            return False
        if not held.get("free"):
            _log.warning("%s was held by a process that is gone: taking it over", self.about)
        self._known = known
        return self._replaced()

    def _read(self) -> tuple[dict[str, Any], Version, float] | None:
        """What the object says, its version, and its age in seconds; None where there is none yet."""
        client = client_of(self.place.store)
        try:
            answer = told(self.place.store, lambda: client.get(self.place.key))
        except FileNotFoundError:
            return None
        try:
            held = json.loads(bytes(answer.bytes()))
        except ValueError:
            held = {}
        age_s = time.time() - answer.meta["last_modified"].timestamp()
        return held, _version_of(answer.meta), age_s

    def _replaced(self, *, free: bool = False) -> bool:
        return self._put(mode=self._known, free=free)

    def _put(self, *, mode: Any, free: bool = False) -> bool:
        """Write what is held now; False where somebody wrote first."""
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        # without the nonce, two writes of one holder would have one ETag
        held = {"owner": self.owner, "free": free, "expires_s": self.expires_s, "nonce": uuid.uuid4().hex}
        client, content = client_of(self.place.store), json.dumps(held).encode()
        try:
            put = lambda: client.put(self.place.key, content, mode=mode, use_multipart=False)  # noqa: E731
            self._known = _version_of(told(self.place.store, put))
        except (AlreadyExistsError, PreconditionError, FileNotFoundError):
            found = self._read()  # a write that is sent twice refuses itself
            if found is None or found[0].get("nonce") != held["nonce"]:
                return False
            self._known = found[1]
        return True

    def _renew(self) -> None:
        renewed = time.monotonic()
        while not self._over.wait(self.renewed_s):
            try:
                if not self._replaced():
                    break
                renewed = time.monotonic()
            except KnowledgeError:
                if time.monotonic() - renewed > self.expires_s:
                    break
        else:
            return
        self._lost = True
        _log.error("the hold on %s was lost: another process may be working on it", self.about)


def _version_of(meta: Any) -> Version:
    return {name: meta[name] for name in ("e_tag", "version") if meta[name]}

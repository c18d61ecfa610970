"""Query ids that say by themselves that they were given, and to whom, so that no log has to be searched.

An id ends in two keyed digests: of what precedes them and the caller, and of all that. The key is the
store's, so an id can be verified by every process that answers from it, long after, with queries logged or
not.
"""

from __future__ import annotations

import hmac
import json
import logging
import secrets
import threading
from dataclasses import dataclass, field

from knowledge_pipeline.errors import KnowledgeError
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.pending_rows import lock_log

_TAG_CHARS = 12  # of each digest, hexadecimal: only guesses over an interface can be tried
_NOTE = "query_id_key"  # on the table of feedback, which nobody else reads

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class QueryIds:
    """Issues and verifies the query ids of one store. Threads may share it."""

    lake: Lake
    _key: bytes | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def issue(self, id_: str, access: Access) -> str:
        """The id to give to a caller, for a unique one."""
        to_caller = self._tag(id_, _identify_caller(access))
        return f"{id_}-{to_caller}{self._tag(id_, to_caller)}"

    def is_issued_to(self, query_id: str, access: Access) -> bool:
        """Whether the id was given to this caller; for an operator, to anybody."""
        id_, _, tags = query_id.rpartition("-")
        to_caller, given = tags[:_TAG_CHARS], tags[_TAG_CHARS:]
        if not _is_equal(given, self._tag(id_, to_caller)):
            return False
        return access.everything or _is_equal(to_caller, self._tag(id_, _identify_caller(access)))

    def _tag(self, *parts: str) -> str:
        content = json.dumps(parts).encode()  # ASCII, whatever the parts hold
        return hmac.digest(self._load_key(), content, "sha256").hex()[:_TAG_CHARS]

    def _load_key(self) -> bytes:
        with self._lock:
            if self._key is None:
                self._key = _load_or_create_key(self.lake)
            return self._key


def _load_or_create_key(lake: Lake) -> bytes:
    """The key of the store; one for this process alone where the store cannot be written."""
    table = lake.log_table("feedback")
    try:
        if _NOTE not in table.metadata_notes:
            with lock_log(lake, "feedback"):
                if _NOTE not in table.metadata_notes:
                    table.write_notes(**{_NOTE: secrets.token_hex(32)})
        return bytes.fromhex(table.metadata_notes[_NOTE])
    except (KnowledgeError, OSError, RuntimeError, ValueError) as error:
        message = "the store takes no key for query ids (%s): feedback is taken by the process that answered"
        _log.debug(message, type(error).__name__)
        return secrets.token_bytes(32)


def _identify_caller(access: Access) -> str:
    """By the token; without one, by what the caller may see and the interface."""
    caller = access.caller
    if caller.token is not None:
        return json.dumps([access.tenant, caller.token])
    return json.dumps([access.tenant, None, caller.interface, sorted(access.principals)])


def _is_equal(found: str, expected: str) -> bool:
    return hmac.compare_digest(found.encode("utf-8", "replace"), expected.encode())

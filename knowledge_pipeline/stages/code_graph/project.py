"""The stored facts of a source, as the resolver reads them."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from functools import partial
from typing import Any

from cachetools import LRUCache

from knowledge_pipeline.code_graph import ChangedNames, FileFacts, Trace, from_json, renew_trace
from knowledge_pipeline.store.changes.held_terms import TermLookup
from knowledge_pipeline.store.filters import one_of
from knowledge_pipeline.store.tables import Table

_PRELOAD_BYTES = 64 << 20  # of facts as text
_recent_facts: LRUCache[tuple[str, str], FileFacts] = LRUCache(256)
"""Facts as objects, by path and fingerprint, which stands for the text that they come from."""
_recent_facts_lock = threading.Lock()
_BATCH_ROWS = 64


def recall_facts(path: str, fingerprint: str) -> FileFacts | None:
    """The facts of a file, if they are among the last few that this process has seen."""
    with _recent_facts_lock:
        return _recent_facts.get((path, fingerprint))


def remember_facts(path: str, fingerprint: str, facts: FileFacts) -> FileFacts:
    """Keep the facts of a file for who asks next."""
    with _recent_facts_lock:
        _recent_facts[path, fingerprint] = facts
    return facts


class StoredProject:
    """The facts of one source at one moment: a `code_graph.Project`."""

    def __init__(self, table: Table, *, preloads: bool = False) -> None:
        self._table = table
        self.preloads = preloads  # the texts of all facts, up to a limit: many will be asked for
        rows = table.read_rows(["path", "interface", "fingerprint"]).to_pydict()
        self.interfaces: Mapping[str, str] = dict(zip(rows["path"], rows["interface"], strict=True))
        self._fingerprints = dict(zip(rows["path"], rows["fingerprint"], strict=True))
        self._texts: dict[str, str] = {}
        self._names = TermLookup(table, "path", "defines")

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(StoredProject, preloads=self.preloads), (self._table,)

    def paths(self) -> Collection[str]:
        """All files that have facts."""
        return self.interfaces.keys()

    def facts(self, path: str) -> FileFacts:
        """What a file says; the last few are kept, from one refresh to the next too."""
        fingerprint = self._fingerprints[path]
        found = recall_facts(path, fingerprint)
        return found or remember_facts(path, fingerprint, from_json(self._load_text(path)))

    def files_defining(self, name: str) -> Collection[str]:
        """The files with a definition of which this is the last segment."""
        return self._names.find_keys(name)

    def renew_trace(self, trace: Trace, changes: ChangedNames | None = None) -> Trace | None:
        """The trace that resolving a file would leave now; see `code_graph.renew_trace`."""
        return renew_trace(trace, self, self.interfaces, changes)

    def _load_text(self, path: str) -> str:
        if self.preloads and not self._texts:
            self._preload_texts()
        if path not in self._texts:
            return self._table.read_rows(["facts"], one_of("path", [path]))["facts"][0].as_py()
        return self._texts[path]

    def _preload_texts(self) -> None:
        held = 0
        for batch in self._table.iter_batches(["path", "facts"], batch_rows=_BATCH_ROWS):
            for path, text in zip(*batch.to_pydict().values(), strict=True):
                held += len(text)
                if held > _PRELOAD_BYTES:
                    return
                self._texts[path] = text

"""The stored facts of a source, as the resolver reads them."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Collection, Mapping

from knowledge_pipeline.graph.codec import from_json
from knowledge_pipeline.graph.facts import Facts
from knowledge_pipeline.graph.resolve import Trace, renewed
from knowledge_pipeline.store.filters import one_of
from knowledge_pipeline.store.tables import Table

_READ_AHEAD_BYTES = 64 << 20  # of facts as text
_KEPT = 256  # files whose facts are kept as objects
_BATCH_ROWS = 64


class StoredProject:
    """A still picture of the facts of one source: see `graph.layout.Project`."""

    def __init__(self, table: Table) -> None:
        self._table = table
        rows = table.rows(["path", "interface"])
        self.interfaces: Mapping[str, str] = dict(
            zip(rows["path"].to_pylist(), rows["interface"].to_pylist(), strict=True)
        )
        self._texts: dict[str, str] = {}
        self._facts: OrderedDict[str, Facts] = OrderedDict()
        self._defining: dict[str, list[str]] | None = None

    def paths(self) -> Collection[str]:
        """All files that have facts."""
        return self.interfaces.keys()

    def facts(self, path: str) -> Facts:
        """What a file says; the last few are kept."""
        found = self._facts.pop(path, None) or from_json(self._text(path))
        self._facts[path] = found
        if len(self._facts) > _KEPT:
            self._facts.popitem(last=False)
        return found

    def defining(self, name: str) -> Collection[str]:
        """The files with a definition of which this is the last segment."""
        if self._defining is None:
            made: defaultdict[str, list[str]] = defaultdict(list)
            for batch in self._table.batches(["path", "defines"], batch_rows=_BATCH_ROWS):
                for path, names in zip(batch["path"].to_pylist(), batch["defines"].to_pylist(), strict=True):
                    for each in names:
                        made[each].append(path)
            self._defining = dict(made)
        return self._defining.get(name, ())

    def read_ahead(self) -> None:
        """Take the facts of all files into memory as texts, up to a limit: many will be asked for."""
        held = 0
        for batch in self._table.batches(["path", "facts"], batch_rows=_BATCH_ROWS):
            for path, text in zip(batch["path"].to_pylist(), batch["facts"].to_pylist(), strict=True):
                held += len(text)
                if held > _READ_AHEAD_BYTES:
                    return
                self._texts[path] = text

    def renewed(self, trace: Trace, names: Collection[str] | None = None) -> Trace | None:
        """What was asked when a file was resolved, with today's answers; None: one is another.

        Args:
            trace: of a file that did not change itself.
            names: as `graph.resolve.renewed`.
        """
        return renewed(trace, self, self.interfaces, names)

    def _text(self, path: str) -> str:
        if path not in self._texts:
            return self._table.rows(["facts"], one_of("path", [path]))["facts"][0].as_py()
        return self._texts[path]

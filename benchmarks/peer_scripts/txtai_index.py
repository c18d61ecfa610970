"""txtai: a hybrid index with content, text cut by its segmentation pipeline with a recursive chunker.

It does not track files: what changed is told here by a hash of each file, and goes in by its `upsert` and
`delete`, as its documentation has it; the index is saved after every change.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from txtai import Embeddings
from txtai.pipeline import Segmentation

from benchmarks.peer_scripts.measuring import main
from benchmarks.peer_scripts.tool import Kind, LookedUpModel, Tool

_CHARACTERS = (
    1000  # of a chunk at most, as CocoIndex's example has it; 2048 by default, of which half is read
)


class Txtai(Tool):
    """One index at a time; models are loaded once and shared."""

    name = "txtai"
    packages = ("txtai", "chonkie", "faiss-cpu", "transformers", "torch")

    def load(self) -> None:
        """See `Tool.load`."""
        self._models: dict[str, Any] = {}
        self._chunk = Segmentation(chunker="recursive", chunk_size=_CHARACTERS, cleantext=False)
        self._empty().index(["warm"])
        self._models = {key: LookedUpModel(model, self.vectors) for key, model in self._models.items()}

    def _empty(self) -> Embeddings:
        return Embeddings(path=str(self.model), content=True, hybrid=True, models=self._models)

    def begin(self, place: Path) -> None:
        """See `Tool.begin`."""
        place.mkdir(parents=True)
        self._place, self._index = place, self._empty()
        self._known: dict[str, tuple[str, list[str]]] = {}  # path -> hash, ids of chunks

    def refresh(self) -> None:
        """See `Tool.refresh`."""
        found = {path.relative_to(self.corpus).as_posix(): path for path in self.files()}
        hashes = {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in found.items()}
        changed = [name for name in found if self._known.get(name, ("",))[0] != hashes[name]]
        gone = [name for name in self._known if name not in found]
        if changed or gone:
            self._apply(changed, gone, hashes)

    def _apply(self, changed: list[str], gone: list[str], hashes: dict[str, str]) -> None:
        stale = {id_ for name in [*changed, *gone] for id_ in self._known.pop(name, ("", []))[1]}
        rows: list[tuple[str, str, None]] = []
        for name in changed:
            chunks = self._chunk((self.corpus / name).read_text("utf-8"))
            made = [(f"{name}#{at}", chunk, None) for at, chunk in enumerate(chunks)]
            self._known[name] = (hashes[name], [id_ for id_, _, _ in made])
            rows += made
        if rows:
            self._index.upsert(rows)
        if stale := stale - {id_ for id_, _, _ in rows}:
            self._index.delete(sorted(stale))
        self._index.save(str(self._place / "index"))
        (self._place / "files.json").write_text(json.dumps(self._known))

    def chunks(self) -> int:
        """See `Tool.chunks`."""
        return self._index.count()

    def search(self, text: str, kind: Kind, limit: int) -> list[str]:
        """Without its keyword index where only vectors are asked."""
        keywords = self._index.scoring
        try:
            if kind == "vector":
                self._index.scoring = None
            found = self._index.search(text, limit)
        finally:
            self._index.scoring = keywords
        return [hit["id"].rpartition("#")[0] for hit in found]


if __name__ == "__main__":
    main(Txtai)

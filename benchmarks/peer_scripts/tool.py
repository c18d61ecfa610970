"""What a tool is to `measuring`, and how its vectors are looked up: NumPy and the standard library alone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

Kind = Literal["vector", "hybrid"]
KINDS: tuple[Kind, ...] = ("vector", "hybrid")


class Vectors:
    """Vectors of texts: computed and remembered, or looked up."""

    def __init__(self) -> None:
        self.looked_up = False
        self.computed = 0  # since they are looked up
        self._known: dict[str, np.ndarray] = {}

    def of(self, texts: Sequence[str], compute: Callable[[list[str]], Any]) -> np.ndarray:
        """Float32, shape (texts, dim)."""
        if missing := self.missing(texts):
            self.keep(missing, compute(missing))
        return self.rows(texts)

    def missing(self, texts: Sequence[str]) -> list[str]:
        """What is to be computed: everything, or what is not known yet."""
        if not self.looked_up:
            return list(texts)
        return list(dict.fromkeys(text for text in texts if text not in self._known))

    def keep(self, texts: Sequence[str], made: Any) -> None:
        """Remember what was computed."""
        self.computed += len(texts) if self.looked_up else 0
        self._known.update(zip(texts, np.asarray(made, dtype=np.float32), strict=True))

    def rows(self, texts: Sequence[str]) -> np.ndarray:
        """Of texts that are known; float32, shape (texts, dim)."""
        return np.stack([self._known[text] for text in texts])


class LookedUpModel:
    """Stands where a tool has its `SentenceTransformer`, with the same `encode`."""

    def __init__(self, model: Any, vectors: Vectors) -> None:
        self._model, self._vectors = model, vectors

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def encode(self, texts: Any, *given: Any, **named: Any) -> np.ndarray:
        """As the model's own; one text gives one vector."""
        several = [texts] if isinstance(texts, str) else list(texts)
        made = self._vectors.of(several, lambda missing: self._model.encode(missing, *given, **named))
        return made[0] if isinstance(texts, str) else made


class Tool(ABC):
    """A tool over one folder of files; paths are relative to it."""

    name: str
    packages: tuple[str, ...]  # whose versions are told

    def __init__(self, corpus: Path, model: Path, vectors: Vectors) -> None:
        self.corpus, self.model, self.vectors = corpus, model, vectors

    @abstractmethod
    def load(self) -> None:
        """Import, load the model, and embed one text."""

    @abstractmethod
    def begin(self, place: Path) -> None:
        """Go on with an empty index at `place`."""

    @abstractmethod
    def refresh(self) -> None:
        """Bring the index up to date with the folder, durably."""

    @abstractmethod
    def chunks(self) -> int:
        """How many there are in the index."""

    @abstractmethod
    def search(self, text: str, kind: Kind, limit: int) -> list[str]:
        """The paths of so many passages, best first."""

    def files(self) -> list[Path]:
        """Of the corpus, in a fixed order."""
        return sorted(path for path in self.corpus.rglob("*") if path.suffix in {".py", ".md"})

    def rest(self) -> None:  # noqa: B027 - most tools do nothing
        """Do what a running process does when nothing changes: it is not timed."""

    def close(self) -> None:  # noqa: B027 - most tools have nothing to end
        """End what was started."""

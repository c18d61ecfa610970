"""Names that the best passages use for what a question asks about. Pure, without a model.

Whoever asks about "lock timeouts" may not know that the code says `LockTimeout`; the passages
found first do. Full text is asked once more with such names.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from knowledge_pipeline import identifiers
from knowledge_pipeline.query.search.hits import Hit
from knowledge_pipeline.query.search.understand import Question

BEST = 10  # passages that are read
MAX_NAMES = 5
_LEAST_CHARS = 3  # of a part, or of initials: shorter ones are alike by chance
_NAME = re.compile(r"\b(?=\w*[a-z])[A-Za-z]\w{3,59}\b")


def related_names(question: Question, hits: Sequence[Hit]) -> tuple[str, ...]:
    """Compound names in the best hits that share a part with the question, or abbreviate to one of its words.

    Those with the most parts in common first, then those of the most passages; at most
    `MAX_NAMES`, none that the question has itself.
    """
    asked = set(_parts(question.words))
    known = {word.casefold() for word in question.words.split()}
    names = Counter(name for hit in hits[:BEST] for name in _names(hit))
    near = [(_nearness(name, asked), count, name) for name, count in names.items()]
    best = sorted((each for each in near if each[0] > 0), key=lambda each: (-each[0], -each[1], each[2]))
    return tuple(name for _, _, name in best if _spelt(name) not in known)[:MAX_NAMES]


def _names(hit: Hit) -> set[str]:
    """Compound names of a passage, each once."""
    passage = hit.passage
    texts: Iterable[str] = (*passage.symbols, passage.text)
    found = {name for text in texts for name in _NAME.findall(text)}
    return {name for name in found if len(identifiers.parts(name)) > 1}


def _nearness(name: str, asked: set[str]) -> float:
    """The share of a name's parts that the question has; 1 where its initials are a word of the question."""
    parts = identifiers.parts(name)
    if _initials(parts) in asked:
        return 1.0
    return len({part for part in parts if part in asked}) / len(parts)


def _initials(parts: Sequence[str]) -> str:
    return "".join(part[0] for part in parts) if len(parts) >= _LEAST_CHARS else ""


def _parts(words: str) -> list[str]:
    return [part for word in words.split() for part in identifiers.parts(word) if len(part) >= _LEAST_CHARS]


def _spelt(name: str) -> str:
    return name.replace("_", "").casefold()

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
from knowledge_pipeline.query.search.understand import ParsedQuery

MAX_READ_HITS = 10  # passages that are read
MAX_NAMES = 5
_MIN_PART_CHARS = 3  # of a part, or of initials: shorter ones are alike by chance
_NAME = re.compile(r"\b(?=\w*[a-z])[A-Za-z]\w{3,59}\b")


def find_related_names(query: ParsedQuery, hits: Sequence[Hit]) -> tuple[str, ...]:
    """Compound names in the best hits that share a part with the question, or abbreviate to one of its words.

    Those with the most parts in common first, then those of the most passages; at most
    `MAX_NAMES`, none that the question has itself.
    """
    asked = set(_split_parts(query.words))
    known = {word.casefold() for word in query.words.split()}
    names = Counter(name for hit in hits[:MAX_READ_HITS] for name in _find_compound_names(hit))
    near = [(_compute_nearness(name, asked), count, name) for name, count in names.items()]
    best = sorted((each for each in near if each[0] > 0), key=lambda each: (-each[0], -each[1], each[2]))
    return tuple(name for _, _, name in best if _fold_name(name) not in known)[:MAX_NAMES]


def _find_compound_names(hit: Hit) -> set[str]:
    """Compound names of a passage, each once."""
    passage = hit.chunk
    texts: Iterable[str] = (*passage.symbols, passage.text)
    found = {name for text in texts for name in _NAME.findall(text)}
    return {name for name in found if len(identifiers.split_identifier(name)) > 1}


def _compute_nearness(name: str, query_parts: set[str]) -> float:
    """The share of a name's parts that the question has; 1 where its initials are a word of the question."""
    parts = identifiers.split_identifier(name)
    if _build_initials(parts) in query_parts:
        return 1.0
    return len({part for part in parts if part in query_parts}) / len(parts)


def _build_initials(parts: Sequence[str]) -> str:
    return "".join(part[0] for part in parts) if len(parts) >= _MIN_PART_CHARS else ""


def _split_parts(words: str) -> list[str]:
    return [
        part
        for word in words.split()
        for part in identifiers.split_identifier(word)
        if len(part) >= _MIN_PART_CHARS
    ]


def _fold_name(name: str) -> str:
    return name.replace("_", "").casefold()

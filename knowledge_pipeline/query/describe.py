"""What goes with a result, in words that every door shares. Imports nothing heavy: the command line does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from knowledge_pipeline.query.search.assemble import Neighbour, Neighbours, Relation

_INWARD = {
    "closes": "closed by",
    "implements": "implemented by",
    "supersedes": "superseded by",
    "duplicates": "duplicated by",
    "changes": "changed by",
    "references": "referenced by",
}
_KINDS = {
    "calls": "calls",
    "called_by": "called by",
    "extends": "extends",
    "implemented_by": "implemented by",
    "imports": "imports",
}


def said(relation: Relation) -> str:
    """`closes`, or `closed by`: what the document that was asked about has to do with the other one."""
    return relation.kind if relation.direction == "to" else _INWARD[relation.kind]


def surroundings(found: Neighbours, *, most: int) -> Iterator[str]:
    """`calls Store.get shop/store.py:5, check shop/check.py:1, 3 more`: a line a kind, `most` named."""
    for name, word in _KINDS.items():
        each: Sequence[Neighbour] = getattr(found, name)
        told = [_neighbour(one) for one in each[:most]]
        left = len(each) - len(told) + found.more.get(name, 0)
        if told:
            yield f"{word} {', '.join([*told, *([f'{left} more'] if left else [])])}"


def _neighbour(one: Neighbour) -> str:
    place = f"{one.path}:{one.line}" if one.line else one.path
    return " ".join(filter(None, [one.name, place if place != one.name else None]))

"""What goes with a result, in words that every door shares. Imports nothing heavy: the command line does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from knowledge_pipeline.contract.responses import CodeNeighbour, CodeNeighbours, Relation

_INCOMING_KINDS = {
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


_SKIPPED_STEPS = {
    "vector": "Searched by words alone: the embedding model could not be used.",
    "hyde": "Searched without a hypothetical answer: the language model did not write one.",
    "expansion": "Searched without related terms: the language model did not name any.",
    "decompose": "Searched as one question: the language model did not split it.",
    "graph": "Without callers and callees of code: there is no code graph to read.",
    "rerank": "Without reranking: the reranker could not be used or took too long.",
}


def describe_skipped_step(step: str) -> str:
    """What an answer lacks that had to skip a step, in a sentence."""
    return _SKIPPED_STEPS.get(step, f"Answered without {step}.")


def describe_relation(relation: Relation) -> str:
    """`closes`, or `closed by`: what the document that was asked about has to do with the other one."""
    return relation.kind if relation.direction == "to" else _INCOMING_KINDS[relation.kind]


def describe_neighbours(neighbours: CodeNeighbours, *, max_named: int) -> Iterator[str]:
    """`calls Store.get shop/store.py:5, check shop/check.py:1, 3 more`: a line a kind, `most` named."""
    for name, word in _KINDS.items():
        each: Sequence[CodeNeighbour] = getattr(neighbours, name)
        told = [_format_neighbour(one) for one in each[:max_named]]
        left = len(each) - len(told) + neighbours.omitted.get(name, 0)
        if told:
            yield f"{word} {', '.join([*told, *([f'{left} more'] if left else [])])}"


def _format_neighbour(neighbour: CodeNeighbour) -> str:
    place = f"{neighbour.path}:{neighbour.line}" if neighbour.line else neighbour.path
    return " ".join(filter(None, [neighbour.name, place if place != neighbour.name else None]))

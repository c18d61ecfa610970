"""Proposes golden questions from pairs, for people to review: YAML in the golden format, each entry off.

An entry is written as a comment, so that a file that nobody has reviewed holds no question: loading it is an
error that says so, and nothing is scored by it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from knowledge_pipeline.evaluation.golden import GoldenQuestion
from knowledge_pipeline.stages.tuning.pairs import KINDS, Pair

_HEADER = """\
# Golden questions that `knowledge eval --mine` proposes; nobody has reviewed them yet.
# Each was taken from what is indexed: is it what someone would ask, and are these all the answers?
# The words of a docstring find their own definition: put them as someone would who has not read it.
# Take the leading "# " off those that are good, put the others right or delete them, and name this file in
# evaluation.questions. Until then it holds no question. docs/evaluation.md explains the format.
questions:
"""


def select_proposals(pairs: Iterable[Pair], *, limit: int) -> list[Pair]:
    """At most `limit` pairs, taken from each kind in turn, judged results first: people asked those."""
    pairs = list(pairs)
    by_kind = {kind: [pair for pair in pairs if pair.kind == kind] for kind in reversed(KINDS)}
    longest = max(map(len, by_kind.values()), default=0)
    in_turn = (of_kind[at] for at in range(longest) for of_kind in by_kind.values() if at < len(of_kind))
    return [pair for _, pair in zip(range(limit), in_turn, strict=False)]


def format_proposals(pairs: Sequence[Pair]) -> str:
    """The file: a comment for each pair, with where it is from."""
    return _HEADER + "".join(_format_pair(pair) for pair in pairs)


def _format_pair(pair: Pair) -> str:
    made = f", {pair.made_at:%Y-%m-%d}" if pair.made_at else ""
    lines = [f"# {pair.kind} of {' '.join(pair.origin.split())}{made}"]
    lines += [f"# {line}" for line in _format_entry(pair.question)]
    return "\n" + "".join(f"  {line}\n" for line in lines)


def _format_entry(question: GoldenQuestion) -> list[str]:
    """One entry of `questions`; JSON strings are YAML strings, whatever they hold."""
    source = question.filters.get("sources")
    entry: list[str] = [f"- question: {json.dumps(question.text, ensure_ascii=False)}"]
    entry.append(f"  type: {question.type}")
    entry += [f"  source: {json.dumps(source[0])}"] if source else []
    entry.append("  answers:")
    for answer in question.answers:
        values: dict[str, Any] = {"path": answer.path}
        values |= {"symbol": answer.symbol} if answer.symbol else {}
        values |= {"relevance": answer.relevance} if answer.relevance != 1 else {}
        entry.append(f"    - {json.dumps(values, ensure_ascii=False)}")
    return entry

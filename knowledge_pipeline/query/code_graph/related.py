"""Which code has most to do with some other: by its uses, by common uses, by its place."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import replace
from math import log

from knowledge_pipeline.query.code_graph.answers import Node
from knowledge_pipeline.query.code_graph.walk import Walk
from knowledge_pipeline.store import filters

_WEIGHTS = {"extends": 1.0, "implements": 1.0, "calls": 0.8, "references": 0.5, "imports": 0.3}
_SAME_CLASS, _SAME_FILE = 0.3, 0.1
_SHARED = 0.6  # of the weight of a direct use, for what uses the same things
_MOST_NEAR = 100  # definitions that use the target, or that it uses
_MOST_USERS = 1_000  # uses of those that it uses
_MOST_SHARED = 30  # used definitions whose other users are looked at
_KINDS = tuple(_WEIGHTS)
_Scores = defaultdict[str, float]


async def related(walk: Walk, targets: Sequence[Node], ids: Collection[str]) -> None:
    """Leave in the walk the targets and what is related to them, each with its score.

    Args:
        walk: has the targets, their members and the files to start from.
        targets: what was asked for.
        ids: of the targets and of what definitions among them hold.

    A definition that uses the same things as the target counts for each by one over the logarithm
    of how many use it, because what everybody uses relates nobody.

    Source: Adamic & Adar 2003, https://doi.org/10.1016/S0378-8733(03)00009-1
    """
    near = Walk(walk.rows, limit=_MOST_NEAR, nodes=dict(walk.nodes), within=walk.within)
    await near.at_once(
        lambda walk: walk.follow(ids, "in", _KINDS), lambda walk: walk.follow(ids, "out", _KINDS)
    )
    own = {id_ for id_, node in near.nodes.items() if node.side in ("target", "member")}
    scores: _Scores = defaultdict(float)
    for link in near.links.values():
        other = link.source if link.target in own else link.target
        if other not in own:
            scores[other] += _WEIGHTS[link.kind] * link.confidence
    nodes = dict(near.nodes)
    await _add_sharing(walk, near, own, scores, nodes)
    _add_neighbours(targets, own, scores, nodes)
    _keep_best(walk, near, own, scores, nodes)


async def _add_sharing(
    walk: Walk, near: Walk, own: set[str], scores: _Scores, nodes: dict[str, Node]
) -> None:
    """What uses the things that the target uses."""
    used = sorted({link.target for link in near.links.values() if link.source in own} - own)
    asked = [id_ for id_ in used if nodes[id_].kind not in ("outside", "file")][:_MOST_SHARED]
    if not asked:
        return
    edges = await walk.rows.edges(
        filters.one_of("kind", _KINDS) & filters.one_of("target_id", asked),
        limit=_MOST_USERS,
        columns=("source_id", "target_id"),
    )
    users: defaultdict[str, set[str]] = defaultdict(set)
    for row in edges:
        users[row["target_id"]].add(row["source_id"])
    for using in users.values():
        for id_ in using - own:
            scores[id_] += _SHARED / log(1 + len(using)) if len(using) > 1 else 0.0
    best = [id_ for id_, _ in _ranked(scores)[: 2 * walk.limit] if id_ not in nodes]
    nodes.update(await walk.rows.nodes(best))


def _add_neighbours(targets: Sequence[Node], own: set[str], scores: _Scores, nodes: dict[str, Node]) -> None:
    """Of those found already, what is in the same class or file is nearer."""
    files = {(node.source, node.path) for node in targets}
    classes = {(node.source, node.path, node.name.rpartition(".")[0]) for node in targets if "." in node.name}
    for id_ in scores.keys() & nodes.keys() - own:
        node = nodes[id_]
        if (node.source, node.path, node.name.rpartition(".")[0]) in classes:
            scores[id_] += _SAME_CLASS
        elif (node.source, node.path) in files:
            scores[id_] += _SAME_FILE


def _keep_best(walk: Walk, near: Walk, own: set[str], scores: _Scores, nodes: dict[str, Node]) -> None:
    ranked = [
        (id_, score)
        for id_, score in _ranked(scores)
        if id_ in nodes and nodes[id_].kind not in ("outside", "file") and id_ not in own
    ]
    for id_, score in ranked[: walk.limit]:
        side = near.nodes[id_].side if id_ in near.nodes else "uses"
        walk.nodes[id_] = replace(nodes[id_], side=side, distance=1, score=round(score / (1 + score), 4))
    walk.left_out = max(0, len(ranked) - walk.limit)
    walk.start(node for node in near.nodes.values() if node.side == "member")
    walk.links = {
        key: link for key, link in near.links.items() if {link.source, link.target} <= walk.nodes.keys()
    }
    linked = {end for link in walk.links.values() for end in (link.source, link.target)}
    for id_ in [id_ for id_, node in walk.nodes.items() if node.side == "member"]:
        if id_ not in linked:
            del walk.nodes[id_]


def _ranked(scores: _Scores) -> list[tuple[str, float]]:
    return sorted(scores.items(), key=lambda each: (-each[1], each[0]))

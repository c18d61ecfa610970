"""Which code has most to do with some other: by its uses, by common uses, by its place."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import replace
from math import log

from knowledge_pipeline.contract.responses import GraphNode
from knowledge_pipeline.query.code_graph.walk import EdgePath, Walk
from knowledge_pipeline.store import filters

_WEIGHTS = {"extends": 1.0, "implements": 1.0, "calls": 0.8, "references": 0.5, "imports": 0.3}
_SAME_CLASS_BONUS, _SAME_FILE_BONUS = 0.3, 0.1
_SHARED_USE_WEIGHT = 0.6  # of the weight of a direct use, for what uses the same things
_MAX_NEAR = 100  # definitions that use the target, or that it uses
_MAX_USERS = 1_000  # uses of those that it uses
_MAX_SHARED = 30  # used definitions whose other users are looked at
_KINDS = tuple(_WEIGHTS)
_Scores = defaultdict[str, float]


async def rank_related_code(walk: Walk, targets: Sequence[GraphNode], ids: Collection[str]) -> None:
    """Leave in the walk the targets and what is related to them, each with its score.

    Args:
        walk: has the targets, their members and the files to start from.
        targets: what was asked for.
        ids: of the targets and of what definitions among them hold.

    A definition that uses the same things as the target counts for each by one over the logarithm
    of how many use it, because what everybody uses relates nobody.

    Source: Adamic & Adar 2003, https://doi.org/10.1016/S0378-8733(03)00009-1
    """
    near = Walk(walk.graph, limit=_MAX_NEAR, nodes=dict(walk.nodes), member_scope=walk.member_scope)
    await near.follow_all(ids, EdgePath("in", _KINDS), EdgePath("out", _KINDS))
    own = {id_ for id_, node in near.nodes.items() if node.role in ("target", "member")}
    scores: _Scores = defaultdict(float)
    for link in near.edges.values():
        other = link.source if link.target in own else link.target
        if other not in own:
            scores[other] += _WEIGHTS[link.kind] * link.confidence
    nodes = dict(near.nodes)
    await _score_shared_uses(walk, near, own, scores, nodes)
    _score_same_place(targets, own, scores, nodes)
    _keep_best_nodes(walk, near, own, scores, nodes)


async def _score_shared_uses(
    walk: Walk, near_walk: Walk, own_ids: set[str], scores: _Scores, nodes: dict[str, GraphNode]
) -> None:
    """What uses the things that the target uses."""
    used = sorted({link.target for link in near_walk.edges.values() if link.source in own_ids} - own_ids)
    asked = [id_ for id_ in used if nodes[id_].kind not in ("outside", "file")][:_MAX_SHARED]
    if not asked:
        return
    edges = await walk.graph.read_edges(
        filters.one_of("kind", _KINDS) & filters.one_of("target_id", asked),
        limit=_MAX_USERS,
        columns=("source_id", "target_id"),
    )
    users: defaultdict[str, set[str]] = defaultdict(set)
    for row in edges:
        users[row["target_id"]].add(row["source_id"])
    for using in users.values():
        for id_ in using - own_ids:
            scores[id_] += _SHARED_USE_WEIGHT / log(1 + len(using)) if len(using) > 1 else 0.0
    best = [id_ for id_, _ in _rank_scores(scores)[: 2 * walk.limit] if id_ not in nodes]
    nodes.update(await walk.graph.read_nodes(best))


def _score_same_place(
    targets: Sequence[GraphNode], own_ids: set[str], scores: _Scores, nodes: dict[str, GraphNode]
) -> None:
    """Of those found already, what is in the same class or file is nearer."""
    files = {(node.source, node.path) for node in targets}
    classes = {(node.source, node.path, node.name.rpartition(".")[0]) for node in targets if "." in node.name}
    for id_ in scores.keys() & nodes.keys() - own_ids:
        node = nodes[id_]
        if (node.source, node.path, node.name.rpartition(".")[0]) in classes:
            scores[id_] += _SAME_CLASS_BONUS
        elif (node.source, node.path) in files:
            scores[id_] += _SAME_FILE_BONUS


def _keep_best_nodes(
    walk: Walk, near_walk: Walk, own_ids: set[str], scores: _Scores, nodes: dict[str, GraphNode]
) -> None:
    ranked = [
        (id_, score)
        for id_, score in _rank_scores(scores)
        if id_ in nodes and nodes[id_].kind not in ("outside", "file") and id_ not in own_ids
    ]
    for id_, score in ranked[: walk.limit]:
        side = near_walk.nodes[id_].role if id_ in near_walk.nodes else "uses"
        walk.nodes[id_] = replace(nodes[id_], role=side, distance=1, score=round(score / (1 + score), 4))
    walk.left_out = max(0, len(ranked) - walk.limit)
    walk.add_start_nodes(node for node in near_walk.nodes.values() if node.role == "member")
    walk.edges = {
        key: link for key, link in near_walk.edges.items() if {link.source, link.target} <= walk.nodes.keys()
    }
    linked = {end for link in walk.edges.values() for end in (link.source, link.target)}
    for id_ in [id_ for id_, node in walk.nodes.items() if node.role == "member"]:
        if id_ not in linked:
            del walk.nodes[id_]


def _rank_scores(scores: _Scores) -> list[tuple[str, float]]:
    return sorted(scores.items(), key=lambda each: (-each[1], each[0]))

"""The code most closely related to some other: by its uses, by common uses, by its place."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import replace
from math import log

from knowledge_pipeline.contract.responses.graph import GraphNode
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
    """Add to a walk that has its targets what is related to them, each node with its score.

    A definition that uses the same things as the target scores for each of them one over the logarithm
    of how many use it, because what everybody uses relates nobody.

    Source: Adamic & Adar 2003, https://doi.org/10.1016/S0378-8733(03)00009-1
    """
    near = Walk(walk.graph, limit=_MAX_NEAR, nodes=dict(walk.nodes), member_scope=walk.member_scope)
    await near.follow_all(ids, EdgePath("in", _KINDS), EdgePath("out", _KINDS))
    own = {id_ for id_, node in near.nodes.items() if node.role in ("target", "member")}
    nodes, scores = dict(near.nodes), _Scores(float)
    for edge in near.edges.values():
        other = edge.source if edge.target in own else edge.target
        if other not in own:
            scores[other] += _WEIGHTS[edge.kind] * edge.confidence
    for id_, score in (await _score_shared_uses(near, own)).items():
        scores[id_] += score
    unread = [id_ for id_, _ in _rank_scores(scores)[: 2 * walk.limit] if id_ not in nodes]
    nodes.update(await walk.graph.read_nodes(unread))
    _add_place_bonuses(targets, own, scores, nodes)

    others = {id_ for id_, node in nodes.items() if node.kind not in ("outside", "file")} - own
    ranked = [(id_, score) for id_, score in _rank_scores(scores) if id_ in others]
    for id_, score in ranked[: walk.limit]:
        role = near.nodes[id_].role if id_ in near.nodes else "uses"
        walk.nodes[id_] = replace(nodes[id_], role=role, distance=1, score=round(score / (1 + score), 4))
    walk.left_out = max(0, len(ranked) - walk.limit)
    walk.add_start_nodes(node for node in near.nodes.values() if node.role == "member")
    edges = near.edges.items()
    walk.edges = {key: edge for key, edge in edges if {edge.source, edge.target} <= walk.nodes.keys()}
    walk.drop_unconnected_members()


async def _score_shared_uses(near: Walk, own_ids: set[str]) -> _Scores:
    """What uses the things that the target uses."""
    scores = _Scores(float)
    used = sorted({edge.target for edge in near.edges.values() if edge.source in own_ids} - own_ids)
    used = [id_ for id_ in used if near.nodes[id_].kind not in ("outside", "file")][:_MAX_SHARED]
    if not used:
        return scores
    edges = await near.graph.read_edges(
        filters.one_of("kind", _KINDS) & filters.one_of("target_id", used),
        limit=_MAX_USERS,
        columns=("source_id", "target_id"),
    )
    users_by_target: defaultdict[str, set[str]] = defaultdict(set)
    for edge in edges:
        users_by_target[edge["target_id"]].add(edge["source_id"])
    for users in users_by_target.values():
        if len(users) > 1:
            for id_ in users - own_ids:
                scores[id_] += _SHARED_USE_WEIGHT / log(1 + len(users))
    return scores


def _add_place_bonuses(
    targets: Sequence[GraphNode], own_ids: set[str], scores: _Scores, nodes: dict[str, GraphNode]
) -> None:
    files = {(node.source, node.path) for node in targets}
    classes = {(node.source, node.path, node.name.rpartition(".")[0]) for node in targets if "." in node.name}
    for id_ in scores.keys() & nodes.keys() - own_ids:
        node = nodes[id_]
        if (node.source, node.path, node.name.rpartition(".")[0]) in classes:
            scores[id_] += _SAME_CLASS_BONUS
        elif (node.source, node.path) in files:
            scores[id_] += _SAME_FILE_BONUS


def _rank_scores(scores: _Scores) -> list[tuple[str, float]]:
    return sorted(scores.items(), key=lambda item: (-item[1], item[0]))

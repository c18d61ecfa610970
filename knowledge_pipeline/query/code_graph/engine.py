"""Questions to the code graph: what uses this, what does it call, what would break.

Every method takes an `Access`, as those of `Engine` do; a target is what `graph_target` says. A name
that may mean several things is answered with the candidates alone.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Coroutine, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

from knowledge_pipeline.errors import NotFound, QuestionRefused
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.code_graph.answers import GraphAnswer, Link, Node
from knowledge_pipeline.query.code_graph.members import Within
from knowledge_pipeline.query.code_graph.related import related
from knowledge_pipeline.query.code_graph.target import Target, find_target
from knowledge_pipeline.query.code_graph.visible_graph import GraphRows
from knowledge_pipeline.query.code_graph.walk import DEPENDS, Direction, Walk
from knowledge_pipeline.query.filters import Filters
from knowledge_pipeline.query.open_release import Index
from knowledge_pipeline.query.stopwatch import Stopwatch

CallDirection = Literal["callers", "callees", "both"]

MAX_DEPTH = 10
MAX_NODES = 1_000
NODES = 100  # of an answer, where nobody says

CALLS = ("calls",)
USES = ("calls", "references", "extends", "implements", "imports")
INHERITS = ("extends", "implements")
_NARROWING = frozenset({"languages", "sources", "source_types", "repos", "branches", "paths", "tags"})
_BOTH: tuple[Direction, ...] = ("in", "out")
_USES_OF_CODE = ("calls", "references", "extends", "implements")


@dataclass(frozen=True, slots=True)
class Asked:
    """A question to the code graph."""

    question: str
    target: str
    filters: Filters  # what the target is looked for among
    limit: int = NODES  # nodes beside the target
    depth: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.limit <= MAX_NODES:
            raise QuestionRefused(f"found limit {self.limit}; allowed: 1 to {MAX_NODES}")
        if not 1 <= self.depth <= MAX_DEPTH:
            raise QuestionRefused(f"found depth {self.depth}; allowed: 1 to {MAX_DEPTH}")
        given = {each.name for each in fields(Filters) if getattr(self.filters, each.name)}
        if unfit := given - _NARROWING:
            raise QuestionRefused(
                f"the code graph is not narrowed by {', '.join(sorted(unfit))}; "
                f"allowed: {', '.join(sorted(_NARROWING))}"
            )


_Walking = Callable[[Walk, Sequence[Node]], Coroutine[Any, Any, None]]


class CodeGraph:
    """Asks the code graph of an index, as a rule the live release. Asynchronous, for one event loop.

    All methods raise `QuestionRefused` where the target, depth or limit make no sense, and `NotFound`
    where nothing is released, no code graph is, or it has no such target that the caller may see.
    """

    def __init__(self, index: Index) -> None:
        self._index = index

    async def find_usages(self, asked: Asked, access: Access) -> GraphAnswer:
        """What uses a definition, or anything defined in it: definitions, with the places."""

        async def walk(walk: Walk, targets: Sequence[Node]) -> None:
            await walk.follow(_start_within(walk, targets), "in", USES)
            _keep_out(walk)

        return await self._answer(asked, access, walk)

    async def find_references(self, asked: Asked, access: Access) -> GraphAnswer:
        """Every place that names exactly this definition or file."""

        async def walk(walk: Walk, targets: Sequence[Node]) -> None:
            await walk.follow({node.id for node in targets}, "in", USES)

        return await self._answer(asked, access, walk)

    async def get_call_graph(
        self, asked: Asked, access: Access, *, direction: CallDirection = "both"
    ) -> GraphAnswer:
        """What calls a function and what it calls, step by step; of a class or file, its functions."""
        if direction not in ("callers", "callees", "both"):
            raise QuestionRefused(f"found direction {direction!r}; allowed: callers, callees, both")

        async def walk(walk: Walk, targets: Sequence[Node]) -> None:
            ids = _start_within(walk, targets)
            ways: dict[str, Direction] = {"callees": "in", "callers": "out"}  # what is not asked for
            wanted: list[Direction] = [way for other, way in ways.items() if direction != other]
            await walk.at_once(*(_along(ids, way, CALLS, asked.depth) for way in wanted))
            _keep_out(walk)

        return await self._answer(asked, access, walk)

    async def get_class_hierarchy(self, asked: Asked, access: Access) -> GraphAnswer:
        """What a class extends or implements, and what extends or implements it."""

        async def walk(walk: Walk, targets: Sequence[Node]) -> None:
            ids = {node.id for node in targets}
            await walk.at_once(*(_along(ids, way, INHERITS, asked.depth) for way in _BOTH))

        return await self._answer(asked, access, walk)

    async def get_dependencies(self, asked: Asked, access: Access) -> GraphAnswer:
        """What a definition, file or folder depends on; of files these are files and imported names."""

        async def walk(walk: Walk, targets: Sequence[Node]) -> None:
            if all(node.kind == "file" for node in targets):
                await walk.follow({node.id for node in targets}, "out", DEPENDS, depth=asked.depth)
                return
            await walk.follow(_start_within(walk, targets), "out", USES, depth=asked.depth)
            _keep_out(walk)

        return await self._answer(asked, access, walk)

    async def analyze_dependencies(self, asked: Asked, access: Access) -> GraphAnswer:
        """What would break if this changed, by way of others too, and what it depends on itself.

        Of a definition: what calls, names or extends it, and so on, and who imports it. Of files: the
        files that use them, and so on.
        """

        async def walk(walk: Walk, targets: Sequence[Node]) -> None:
            if all(node.kind == "file" for node in targets):
                ids = {node.id for node in targets}
                ways = (_along(ids, "in", DEPENDS, asked.depth), _along(ids, "out", DEPENDS, 1))
                await walk.at_once(*ways)
                return
            ids = _start_within(walk, targets)
            await walk.at_once(
                _along(ids, "in", _USES_OF_CODE, asked.depth),
                _along(ids, "in", ("imports",), 1),
                _along(ids, "out", USES, 1),
            )
            _keep_out(walk)

        return await self._answer(asked, access, walk)

    async def find_related_code(self, asked: Asked, access: Access) -> GraphAnswer:
        """Definitions that have most to do with this one: by use, by common uses, by common place."""

        async def walk(walk: Walk, targets: Sequence[Node]) -> None:
            await related(walk, targets, _start_within(walk, targets))

        return await self._answer(asked, access, walk)

    async def _answer(self, asked: Asked, access: Access, walking: _Walking) -> GraphAnswer:
        watch = Stopwatch()
        with watch.step("open"):
            opened = await self._index.opened()
            reader = await opened.graph()
        if reader is None:
            raise NotFound("the code graph is not built: run `knowledge refresh`, with a source of type code")
        rows = GraphRows.of(reader, access)
        with watch.step("look_up"):
            target = await find_target(rows, asked.target, asked.filters)
        walk = Walk(rows, asked.limit)
        if target.nodes:
            with watch.step("walk"):
                walk.start(target.nodes)
                await walking(walk, target.nodes)
        return _told(asked, target, walk, watch, release=opened.release.release)


def _along(
    ids: Collection[str], direction: Direction, kinds: Collection[str], depth: int
) -> Callable[[Walk], Coroutine[Any, Any, None]]:
    return lambda walk: walk.follow(ids, direction, kinds, depth=depth)


def _start_within(walk: Walk, targets: Sequence[Node]) -> set[str]:
    """Start from what is defined in the targets, too; returns the ids of the targets."""
    walk.within = Within.of(targets)
    return {node.id for node in targets}


def _keep_out(walk: Walk) -> None:
    """Drop links between the target's own parts, and the parts that nothing else has to do with."""
    members = {id_ for id_, node in walk.nodes.items() if node.side == "member"}
    own = members | {id_ for id_, node in walk.nodes.items() if node.side == "target"}
    for key, link in list(walk.links.items()):
        if link.source in own and link.target in own and (members or walk.within.files):
            del walk.links[key]
    linked = {end for link in walk.links.values() for end in (link.source, link.target)}
    for id_ in members - linked:
        del walk.nodes[id_]


def _told(asked: Asked, target: Target, walk: Walk, watch: Stopwatch, *, release: int) -> GraphAnswer:
    nodes = sorted(walk.nodes.values(), key=_place)
    return GraphAnswer(
        query_id=str(uuid.uuid4()),
        question=asked.question,
        target=asked.target,
        took_ms=watch.took_ms,
        release=release,
        nodes=tuple(nodes),
        links=tuple(sorted(walk.links.values(), key=_link_place)),
        candidates=target.candidates,
        notes=tuple(_notes(asked, target, walk)),
        timings_ms=watch.timings_ms,
        steps=tuple(watch.steps),
    )


def _place(node: Node) -> tuple[Any, ...]:
    """What was asked for first, then by score, else by side and distance."""
    side = ("target", "member", "used_by", "uses").index(node.side)
    ranked = (2, -node.score) if node.score is not None else (side, 0.0)
    return *ranked, node.distance, node.source or "~", node.path or "", node.name


def _link_place(link: Link) -> tuple[Any, ...]:
    return link.path, link.lines, link.kind, link.source, link.target


def _notes(asked: Asked, target: Target, walk: Walk) -> list[str]:
    notes: list[str] = []
    if target.candidates:
        more = "more than " if target.more else ""
        notes.append(
            f"{asked.target!r} may mean {more}{len(target.candidates)} things: "
            "give more of its name, path:name, or a source"
        )
    if walk.left_out:
        notes.append(f"{walk.left_out} more were left out: the limit is {asked.limit}")
    if walk.cut:
        notes.append("there may be more beyond what is told: ask for less depth, or with a higher limit")
    if walk.unresolved:
        notes.append(f"{walk.unresolved} uses in it could not be resolved, and are left out")
    return notes

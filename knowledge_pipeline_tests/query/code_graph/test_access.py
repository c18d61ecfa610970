"""What a caller may not see changes no answer of the code graph: no node, count, sentence or error.

Three tenants with public, tenant-wide and private sources that use each other. The oracle is a store
without the sources that the caller may not see, asked by an operator: both must answer alike.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from knowledge_pipeline import KnowledgeBase
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.contract.responses import GraphResponse
from knowledge_pipeline.errors import KnowledgeError
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.visible_graph import VisibleGraph
from knowledge_pipeline.store.graph import GraphReader
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline_tests.query.code_graph.world import World

TENANTS = ("acme", "bolt", "core")
VISIBILITIES = ("public", "tenant", "private")
KINDS = ("calls", "calls", "references", "extends", "imports")
CALLERS = {
    "anybody": Access.public(),
    "of acme": Access("acme", frozenset()),
    "jane of acme": Access("acme", frozenset({"jane"})),
    "joe of acme": Access("acme", frozenset({"joe"})),
    "jane of bolt": Access("bolt", frozenset({"jane"})),
    "jane of nowhere": Access("nowhere", frozenset({"jane", "acme"})),
}
Outcome = tuple[Any, ...]
Question = tuple[str, str, dict[str, Any]]


def sees(access: Access, source: str) -> bool:
    """Told once more, in other words than the product's; a private source is Jane's."""
    tenant, visibility = source.split("-")
    if visibility == "public":
        return True
    return access.tenant == tenant and (visibility == "tenant" or "jane" in access.principals)


def world(seed: int, sources: list[str]) -> World:
    """The same world for the same seed, less the sources that are not named."""
    chosen, made = random.Random(seed), World()
    every = [f"{tenant}-{visibility}" for tenant in TENANTS for visibility in VISIBILITIES]
    nodes: dict[str, list[str]] = {}
    for source in every:
        tenant, visibility = source.split("-")
        context = {"visibility": visibility, "tenant": tenant, "principals": ["jane"]}
        made.source(source, **{**context, "principals": ["jane"] if visibility == "private" else []})
        nodes[source] = list(_definitions(made, source))
    for source in every:
        own = nodes[source]
        for _ in range(45):
            start, other = chosen.choice(own), chosen.choice(every)
            inside = other == source or chosen.random() < 0.4
            end = chosen.choice(own) if inside else made.symbols[chosen.choice(nodes[other])]["full_name"]
            sure = chosen.choice([1.0, 0.8, 0.0 if not inside else 0.5])
            made.link(chosen.choice(KINDS), start, end if sure else f"{end}.unknown", 3, sure)
        for kind, name in (
            ("declares", "route GET /orders"),
            ("uses", "route GET /orders"),
            ("uses", "topic jobs"),
        ):
            made.link(kind, chosen.choice(own), name)
        made.link("uses", chosen.choice(own), f"route GET /{source}/orders")
        made.link("uses", chosen.choice(own), "route GET …/orders", 3, 0.6)
        made.link("owns", made.file(source, "CODEOWNERS"), f"owners * @{source}")
    for node in [node for node, row in made.symbols.items() if row["source"] not in sources]:
        del made.symbols[node]
    made.edges = [edge for edge in made.edges if edge["source"] in sources]
    return made


def _definitions(made: World, source: str) -> Iterator[str]:
    """Names of their own, and some that all sources have."""
    own = source.replace("-", "_")
    for path, name, kind in (
        (f"{own}/store.py", "Store", "class"),
        (f"{own}/store.py", "Store.get", "method"),
        (f"{own}/store.py", f"Store.{own}_only", "method"),
        (f"{own}/app.py", f"{own}_main", "function"),
        (f"{own}/app.py", "helper", "function"),
        ("shared/tools.py", "helper", "function"),
        ("shared/tools.py", f"{own}_tool", "function"),
    ):
        yield made.define(source, path, name, kind, (1, 9), full_name=f"{own}.{path[:-3]}.{name}")


class Asking:
    """A store of one world."""

    def __init__(self, folder: Path, made: World) -> None:
        made.write(Lake(folder))
        self.base = KnowledgeBase.open(Settings.model_validate({"store": folder, "logs": {"queries": False}}))

    def ask(self, question: Question, access: Access) -> Outcome:
        """All that an answer, or an error, tells."""
        name, target, options = question
        try:
            told: GraphResponse = getattr(self.base.graph, name)(target, access=access, **options)
        except KnowledgeError as error:
            return type(error).__name__, str(error)
        return told.nodes, told.edges, told.candidates, told.notes


@contextmanager
def two_worlds(folder: Path, seed: int, access: Access) -> Iterator[tuple[Asking, Asking]]:
    """Everything, and what the caller may see alone."""
    every = [f"{tenant}-{visibility}" for tenant in TENANTS for visibility in VISIBILITIES]
    whole = Asking(folder / "whole", world(seed, every))
    seen = Asking(folder / "seen", world(seed, [each for each in every if sees(access, each)]))
    with whole.base, seen.base:
        yield whole, seen


def questions(seed: int, count: int) -> Iterator[Question]:
    """Of every kind, and of targets in every source, some of which are misspelt."""
    chosen = random.Random(seed)
    names = (
        "find_usages", "find_references", "get_call_graph", "get_class_hierarchy", "get_dependencies",
        "analyze_dependencies", "find_related_code",
    )  # fmt: skip
    for number in range(count):
        own = f"{chosen.choice(TENANTS)}_{chosen.choice(VISIBILITIES)}"
        target = chosen.choice(
            [
                "Store", "Store.get", "helper", "shared/tools.py", "tools.py:2", "shared", own, f"{own}_main",
                f"{own}_mian", f"{own}/app.py", f"{own}/store.py:Store", f"{own}/store.py:5",
                f"{own}/stor.py", f"{own}_only", f"{own}.shared/tools.helper",
                f"{own}/store.py:Store.{own}_onyl", "GET /orders", "GET /ordes", "topic jobs",
                f"GET /{own.replace('_', '-')}/orders",
            ]
        )  # fmt: skip
        options: dict[str, Any] = {"limit": chosen.choice([1, 3, 100])}
        name = names[number % len(names)]
        if name not in ("find_usages", "find_references", "find_related_code"):
            options["depth"] = chosen.choice([1, 3])
        yield name, target, options


def differences(folder: Path, seed: int, access: Access, count: int) -> Iterator[Question]:
    """The questions that the caller gets another answer to than if the rest did not exist."""
    operator = Access.operator()
    with two_worlds(folder, seed, access) as (whole, seen):
        for each in questions(seed, count):
            if whole.ask(each, access) != seen.ask(each, operator):
                yield each


@pytest.mark.sampled
@pytest.mark.parametrize("who", CALLERS)
def test_what_a_caller_may_not_see_changes_no_answer(tmp_path: Path, who: str):
    assert list(differences(tmp_path, 1, CALLERS[who], 28)) == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2])
@pytest.mark.parametrize("who", CALLERS)
def test_what_a_caller_may_not_see_changes_no_answer_of_many(tmp_path: Path, who: str, seed: int):
    assert list(differences(tmp_path, seed, CALLERS[who], 60)) == []


def test_the_questions_find_something_for_each_caller(tmp_path: Path):
    with two_worlds(tmp_path, 1, CALLERS["jane of acme"]) as (whole, _):
        told = [whole.ask(each, CALLERS["jane of acme"]) for each in questions(1, 60)]
    found = [each for each in told if len(each) == 4 and each[1]]
    assert len(found) >= 10
    assert any(each[0] == "NotFound" for each in told if len(each) == 2)
    assert any(each[2] for each in told if len(each) == 4)
    assert any("left out" in note for each in found for note in each[3])
    assert any("could not be resolved" in note for each in found for note in each[3])


def _leaking(name: str) -> Callable[..., Any]:
    """A read of all rows, whoever asks."""
    filtered = getattr(VisibleGraph, name)

    async def reading(rows: VisibleGraph, *args: Any, **options: Any) -> Any:
        return await filtered(VisibleGraph.for_access(rows.reader, Access.operator()), *args, **options)

    return reading


@pytest.mark.sampled
@pytest.mark.parametrize("leak", ["read_symbols", "read_edges", "find_by_full_name"])
def test_one_read_without_the_callers_access_is_noticed(
    tmp_path: Path, leak: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(VisibleGraph, leak, _leaking(leak))
    assert any(differences(tmp_path, 1, CALLERS["of acme"], 84))


@pytest.mark.sampled
@pytest.mark.parametrize("who", ["anybody", "jane of acme", "jane of nowhere"])
def test_an_access_that_is_not_handed_on_is_noticed(
    tmp_path: Path, who: str, monkeypatch: pytest.MonkeyPatch
):
    made = VisibleGraph.for_access

    def everything(reader: GraphReader, access: Access) -> VisibleGraph:
        del access
        return made(reader, Access.operator())

    monkeypatch.setattr(VisibleGraph, "for_access", everything)
    assert any(differences(tmp_path, 1, CALLERS[who], 14))


def test_that_there_are_other_sources_is_not_told_by_what_is_cut(tmp_path: Path):
    told: list[Outcome] = []
    for others in (0, 1):
        made = World()
        made.source("hidden", visibility="private", tenant="acme", principals=["jane"])
        for number in range(1100):  # more names than one step looks for in other sources
            made.define("open", "app/big.py", f"name{number}")
        if others:
            made.define("hidden", "vault.py", "secret")
        asking = Asking(tmp_path / str(others), made)
        with asking.base:
            told.append(asking.ask(("find_usages", "app/big.py", {}), Access.public()))
    assert told[0] == told[1]

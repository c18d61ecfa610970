from __future__ import annotations

import asyncio

import pytest

from knowledge_pipeline import AsyncKnowledgeBase, KnowledgeBase
from knowledge_pipeline.contract.filters import Filters
from knowledge_pipeline.contract.responses import GraphResponse
from knowledge_pipeline.errors import InvalidQuery, NotFound
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.graph_queries import GraphRequest
from knowledge_pipeline.store.graph import node_id
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline_tests.query.code_graph.world import World


def shop() -> World:
    """`web` uses the library `lib`, where a store has two methods and a subclass."""
    world = World()
    lib, web = "lib", "web"
    store = world.define(lib, "lib/store.py", "Store", "class", (1, 40))
    get = world.define(lib, "lib/store.py", "Store.get", "method", (5, 10))
    put = world.define(lib, "lib/store.py", "Store.put", "method", (12, 30))
    disk = world.define(lib, "lib/disk.py", "DiskStore", "class", (3, 20))
    check = world.define(lib, "lib/check.py", "check", "function", (1, 9))
    world.alias(store, "lib.Store")
    world.link("imports", world.file(lib, "lib/disk.py"), store, 1)
    world.link("extends", disk, store, 3)
    world.link("calls", put, get, 15)
    world.link("calls", put, get, 20)
    world.link("calls", put, check, 16)
    world.link("calls", check, put, 4, 0.8)  # a cycle
    world.link("calls", check, "json.dumps", 5)
    world.link("calls", check, "whatever.append", 6, 0.0)
    view = world.define(web, "web/view.py", "view", "function", (8, 12))
    main = world.define(web, "web/main.py", "main", "function", (1, 5))
    world.link("imports", world.file(web, "web/view.py"), "lib.Store", 1)
    world.link("calls", view, "lib.store.Store.get", 9)
    world.link("calls", main, view, 2)
    return world


@pytest.fixture
def asked(base: KnowledgeBase, lake: Lake) -> KnowledgeBase:
    shop().write(lake)
    return base


def found(answer: GraphResponse, side: str) -> list[str]:
    return [node.name for node in answer.nodes if node.role == side]


def test_usages_of_a_method_are_told_across_repositories(asked: KnowledgeBase):
    answer = asked.graph.find_usages("Store.get")
    assert found(answer, "target") == ["Store.get"]
    assert found(answer, "used_by") == ["Store.put", "view"]
    lines = {link.path: link.lines for link in answer.edges}
    assert lines == {"lib/store.py": (15, 20), "web/view.py": (9,)}


def test_usages_of_a_class_are_those_of_its_methods_too_and_references_are_not(asked: KnowledgeBase):
    usages = asked.graph.find_usages("lib.store.Store")
    assert set(found(usages, "used_by")) == {"DiskStore", "lib/disk.py", "check", "view", "web/view.py"}
    assert set(found(usages, "member")) == {"Store.get", "Store.put"}
    references = asked.graph.find_references("lib.store.Store")
    assert set(found(references, "used_by")) == {"DiskStore", "lib/disk.py", "web/view.py"}


def test_a_call_graph_ends_although_functions_call_each_other(asked: KnowledgeBase):
    answer = asked.graph.get_call_graph("check", depth=10, direction="callers")
    assert found(answer, "used_by") == ["Store.put"]
    assert {(link.source, link.target) for link in answer.edges} == {
        (node_id("lib", "lib/store.py", "Store.put"), node_id("lib", "lib/check.py", "check")),
        (node_id("lib", "lib/check.py", "check"), node_id("lib", "lib/store.py", "Store.put")),
    }


def test_callees_are_told_step_by_step_with_names_outside(asked: KnowledgeBase):
    answer = asked.graph.get_call_graph("Store.put", depth=2, direction="callees")
    by_distance = {node.name: node.distance for node in answer.matches}
    assert by_distance == {"check": 1, "Store.get": 1, "json.dumps": 2}
    assert [node.kind for node in answer.nodes if node.name == "json.dumps"] == ["outside"]
    assert "1 uses in it could not be resolved" in " ".join(answer.notes)


def test_callers_are_followed_through_another_repository(asked: KnowledgeBase):
    answer = asked.graph.get_call_graph("Store.get", depth=3, direction="callers")
    assert {node.name: node.distance for node in answer.matches}["main"] == 2


def test_who_makes_an_object_calls_its_constructor_and_what_that_calls(base: KnowledgeBase, lake: Lake):
    world = World()
    made = world.define("lib", "lib/a.py", "Made", "class", (1, 9))
    init = world.define("lib", "lib/a.py", "Made.__init__", "method", (2, 5))
    world.link("calls", world.define("lib", "lib/b.py", "make"), made, 3)
    world.link("calls", init, world.define("lib", "lib/c.py", "prepare"), 4)
    world.write(lake)
    assert found(base.graph.get_call_graph("Made.__init__", direction="callers"), "used_by") == ["make"]
    callees = base.graph.get_call_graph("make", direction="callees", depth=2)
    assert [(node.name, node.distance) for node in callees.matches] == [("Made", 1), ("prepare", 2)]
    java = World()
    java.define("app", "A.java", "A", "class", (1, 9))
    constructor = java.define("app", "A.java", "A.A", "method", (2, 5))
    java.link("calls", java.define("app", "B.java", "B.b", "method"), node_id("app", "A.java", "A"), 3)
    java.write(lake)
    assert constructor
    assert found(base.graph.get_call_graph("A.java:A.A", direction="callers"), "used_by") == ["B.b"]


def test_a_hierarchy_goes_both_ways(asked: KnowledgeBase):
    assert found(asked.graph.get_class_hierarchy("DiskStore"), "uses") == ["Store"]
    assert found(asked.graph.get_class_hierarchy("lib.Store"), "used_by") == ["DiskStore"]


def test_what_would_break_of_a_file_are_files(asked: KnowledgeBase):
    answer = asked.graph.analyze_dependencies("lib/store.py", depth=3)
    assert found(answer, "used_by") == ["lib/check.py", "lib/disk.py", "web/view.py", "web/main.py"]
    assert found(answer, "uses") == []  # lib/check.py is told once, where it would break


def test_dependencies_of_a_folder_are_those_of_its_files(asked: KnowledgeBase):
    answer = asked.graph.get_dependencies("web")
    assert set(found(answer, "target")) == {"web/main.py", "web/view.py"}
    assert found(answer, "uses") == ["lib/store.py"]


def test_related_code_is_ranked_without_what_everybody_uses(asked: KnowledgeBase):
    answer = asked.graph.find_related_code("Store.get")
    scores = {node.name: node.score for node in answer.matches}
    assert list(scores) == ["Store.put", "view"]
    assert scores["Store.put"] > scores["view"]


@pytest.mark.parametrize(
    ("target", "name"),
    [
        ("lib/check.py:4", "check"),
        ("lib/store.py:7", "Store.get"),
        ("store.py:2", "Store"),
        ("lib/store.py:Store.put", "Store.put"),
        ("lib/store.py:put", "Store.put"),
        ("lib.Store", "Store"),
        ("Store::get()", "Store.get"),
        ("./lib/check.py", "lib/check.py"),
        ("check.py", "lib/check.py"),
        ("lib.check", "lib/check.py"),
    ],
)
def test_a_target_is_named_in_many_ways(asked: KnowledgeBase, target: str, name: str):
    assert found(asked.graph.find_references(target), "target") == [name]


def test_the_end_of_a_qualified_name_leaves_out_others_of_its_last_part(asked: KnowledgeBase, lake: Lake):
    world = shop()
    world.define("web", "web/cache.py", "Outer.Cache.get", "method")
    world.write(lake)
    assert found(asked.graph.find_references("Cache.get"), "target") == ["Outer.Cache.get"]


def test_a_name_that_means_several_things_lists_them_all(asked: KnowledgeBase, lake: Lake):
    world = shop()
    world.define("web", "web/cache.py", "Cache.get", "method")
    world.write(lake)
    answer = asked.graph.find_usages("get")
    assert [node.name for node in answer.candidates] == ["Store.get", "Cache.get"]
    assert (answer.nodes, answer.edges) == ((), ())
    assert "may mean 2 things" in answer.notes[0]
    narrowed = asked.graph.find_usages("get", filters=Filters(paths=("lib/",)))
    assert found(narrowed, "target") == ["Store.get"]
    assert found(asked.graph.find_usages("get", filters=Filters(sources=("web",))), "target") == ["Cache.get"]
    assert found(asked.graph.find_usages("web/cache.py:get"), "target") == ["Cache.get"]


def test_overloads_are_one_symbol_and_each_line_of_them_leads_to_it(base: KnowledgeBase, lake: Lake):
    world = World()
    node = world.define("lib", "A.java", "A.get", "method", (1, 3))
    world.symbols["twin"] = {**world.symbols[node], "id": "twin", "start_line": 5, "end_line": 9}
    world.write(lake)
    for target in ("get", "A.java:2", "A.java:6"):
        (only,) = base.graph.find_references(target).targets
        assert (only.name, only.lines) == ("A.get", "L1-L3")


def test_an_unknown_name_suggests_near_ones(asked: KnowledgeBase):
    with pytest.raises(NotFound, match=r"no symbol 'Stroe' in the code graph: did you mean Store"):
        asked.graph.find_usages("Stroe")
    with pytest.raises(NotFound, match=r"did you mean lib/store.py"):
        asked.graph.find_usages("lib/stor.py")
    with pytest.raises(NotFound, match=r"lib/store.py defines no 'gte': did you mean Store.get"):
        asked.graph.find_usages("lib/store.py:gte")


@pytest.mark.parametrize("target", ["", "  "])
def test_a_target_that_makes_no_sense_is_refused(asked: KnowledgeBase, target: str):
    with pytest.raises(InvalidQuery, match="give a symbol, a path, or path:line"):
        asked.graph.find_usages(target)


def test_wrong_depth_limit_direction_and_filters_are_refused(asked: KnowledgeBase):
    with pytest.raises(InvalidQuery, match="the depth is 11 steps; allowed: at most 10"):
        asked.graph.get_call_graph("check", depth=11)
    with pytest.raises(InvalidQuery, match="found limit 0; allowed: 1 or more"):
        asked.graph.find_usages("check", limit=0)
    with pytest.raises(InvalidQuery, match="found direction 'up'; allowed: callers, callees, both"):
        asked.graph.get_call_graph("check", direction="up")  # pyright: ignore
    with pytest.raises(InvalidQuery, match="usages follows no edges step by step: omit the depth"):
        GraphRequest("find_usages", "Store.get", depth=2)
    with pytest.raises(InvalidQuery, match="usages does not follow calls: omit the direction"):
        GraphRequest("find_usages", "Store.get", direction="callers")
    with pytest.raises(InvalidQuery, match="not narrowed by labels"):
        asked.graph.find_usages("check", filters=Filters(labels=("bug",)))


def test_a_limit_cuts_and_says_so(base: KnowledgeBase, lake: Lake):
    world = World()
    hub = world.define("lib", "hub.py", "hub")
    for number in range(30):
        world.link("calls", world.define("lib", f"user{number:02}.py", f"use{number}"), hub)
    world.write(lake)
    answer = base.graph.find_usages("hub", limit=7)
    assert len(answer.matches) == 7
    assert answer.notes == ("23 more were left out: the limit is 7",)


def test_hostile_targets_find_nothing_and_break_nothing(asked: KnowledgeBase):
    for target in (
        "' OR true --",
        "Store' OR '1'='1",
        "a.b.c(",
        "[x",
        "\x00",
        "..",
        ":",
        "a:",
        ":3",
        "*",
        "\ud800",
    ):
        with pytest.raises((NotFound, InvalidQuery)):
            asked.graph.find_usages(target)


def test_a_store_without_code_says_that_the_graph_is_not_built(base: KnowledgeBase, lake: Lake):
    with pytest.raises(NotFound, match="nothing is released yet"):
        base.graph.find_usages("x")
    from knowledge_pipeline.store import release

    release.publish_release(lake, keep=5)
    with pytest.raises(NotFound, match="the code graph is not built: run `knowledge refresh`"):
        base.graph.find_usages("x")


def test_a_rollback_answers_from_the_old_graph(asked: KnowledgeBase, lake: Lake):
    from knowledge_pipeline.store import release

    first = release.find_live_release(lake)
    assert first is not None
    world = shop()
    world.link("calls", world.define("web", "web/new.py", "new"), node_id("lib", "lib/check.py", "check"), 3)
    world.write(lake)
    assert "new" in found(asked.graph.find_usages("check"), "used_by")
    release.restore_release(lake, first.release, keep=5)
    assert "new" not in found(asked.graph.find_usages("check"), "used_by")


def test_asynchronous_questions_answer_alike(asked: KnowledgeBase):
    async def ask() -> GraphResponse:
        async with AsyncKnowledgeBase.open(asked.settings) as base:
            return await base.graph.query(GraphRequest("find_usages", "Store.get"))

    assert asyncio.run(ask()).nodes == asked.graph.find_usages("Store.get").nodes


def test_an_answer_is_plain_json(asked: KnowledgeBase):
    answer = asked.graph.find_usages("Store.get").as_json()
    assert answer["operation"] == "usages"
    assert answer["edges"][0]["lines"] == [15, 20]
    assert answer["nodes"][0]["url"] == "https://git.example/lib/lib/store.py#L5-L10"


def test_questions_are_noted_in_the_log(settings, lake: Lake):
    shop().write(lake)
    with KnowledgeBase.open(settings) as base:
        base.graph.find_usages("Store.get")
    (row,) = lake.log_table("queries").read_rows(["type", "text", "results"]).to_pylist()
    assert row == {"type": "graph", "text": "usages Store.get", "results": 2}


PRIVATE = {"visibility": "private", "tenant": "acme", "principals": ["jane"]}


@pytest.mark.slow
def test_a_private_symbol_shows_nowhere_to_others(base: KnowledgeBase, lake: Lake):
    world = World()
    world.source("secret", **PRIVATE)
    open_ = world.define("lib", "lib/open.py", "open_store")
    hidden = world.define("secret", "vault/keys.py", "rotate_keys")
    world.link("calls", hidden, "lib.open.open_store", 3)
    world.link("imports", world.file("secret", "vault/keys.py"), "lib.open.open_store", 1)
    world.link("calls", open_, "vault.keys.rotate_keys", 7)
    for number in range(20):
        world.link("calls", world.define("lib", f"lib/u{number}.py", f"u{number}"), open_)
    world.write(lake)
    jane = Access("acme", frozenset({"jane"}))
    strangers = (Access.public(), Access("acme", frozenset({"joe"})), Access("other", frozenset({"jane"})))
    graph = base.graph
    questions = (
        graph.find_usages,
        graph.find_references,
        graph.get_call_graph,
        graph.get_dependencies,
        graph.analyze_dependencies,
        graph.find_related_code,
        graph.get_class_hierarchy,
    )
    for ask in questions:
        for who in strangers:
            told = str(ask("open_store", limit=5, access=who).as_json())
            assert "secret" not in told
            assert "vault/" not in told
            for target in ("rotate_keys", "vault/keys.py", "vault/keys.py:1", "vault.keys.rotate_keys"):
                with pytest.raises(NotFound):
                    ask(target, access=who)
            with pytest.raises(NotFound) as missing:
                ask("rotate_key", access=who)
            assert "rotate_keys" not in str(missing.value)
    counts = [graph.find_usages("open_store", limit=5, access=who).notes for who in (*strangers, jane)]
    assert counts == [("15 more were left out: the limit is 5",)] * 3 + [
        ("17 more were left out: the limit is 5",)
    ]
    assert "rotate_keys" in found(graph.find_usages("open_store", access=jane), "used_by")
    assert found(graph.get_call_graph("open_store", direction="callees", access=jane), "uses") == [
        "rotate_keys"
    ]

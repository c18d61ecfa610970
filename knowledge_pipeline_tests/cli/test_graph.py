"""`knowledge graph …`, as a person and as a program sees it."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from knowledge_pipeline.contract.describe import render_dot, render_mermaid
from knowledge_pipeline.contract.responses import GraphEdge, GraphNode, GraphResponse
from knowledge_pipeline_tests.cli.conftest import Run, commit, copy_indexed, index_files
from knowledge_pipeline_tests.fakes.openai_server import OpenAIServer

STORE = """\
class Store:
    def get(self, key):
        return self.find(key)

    def find(self, key):
        return key


class DiskStore(Store):
    def find(self, key):
        return key or None
"""
APP = "from shop.store import Store\n\n\ndef main():\n    return Store().get(1)\n"


@pytest.fixture(scope="module")
def shop_once(tmp_path_factory: pytest.TempPathFactory, embedding_server: OpenAIServer) -> Path:
    """A repository with a store and a program that uses it, indexed."""
    files = {"shop/__init__.py": "", "shop/store.py": STORE, "shop/app.py": APP}
    return index_files(tmp_path_factory.mktemp("graph"), embedding_server, **files)


@pytest.fixture
def shop(
    shop_once: Path, tmp_path: Path, embedding_server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A copy of it."""
    monkeypatch.setenv("EMBEDDING_KEY", embedding_server.key)
    return copy_indexed(shop_once, tmp_path, monkeypatch).parent / "shop"


def test_usages_are_a_tree_with_places(shop: Path, run: Run):
    shown = run("graph", "usages", "Store.get")
    assert shown.out.splitlines() == [
        "Store.get  shop-code:shop/store.py:2",
        "└─ used by  (1)",
        "   └─ main  shop-code:shop/app.py:4 [calls at L5 · by import or scope · 1.0]",
    ]


def test_a_class_tells_which_part_of_it_is_used(shop: Path, run: Run):
    shown = run("graph", "usages", "shop.store.Store").out
    assert "main  shop-code:shop/app.py:4 [calls Store.get at L5 · by import or scope · 1.0]" in shown
    assert "DiskStore  shop-code:shop/store.py:9 [extends at L9 · by import or scope · 1.0]" in shown
    assert "shop/app.py  shop-code [imports at L1 · by import or scope · 1.0]" in shown


def test_calls_both_ways_and_step_by_step(shop: Path, run: Run):
    shown = run("graph", "calls", "Store.get", "--depth", "2").out
    assert re.search(r"called by  \(1\)\n│  └─ main ", shown)
    assert re.search(r"calls  \(1\)\n   └─ Store.find ", shown)
    assert "Store.find" not in run("graph", "calls", "Store.get", "--direction", "callers").out


def test_hierarchy_dependencies_impact_and_related(shop: Path, run: Run):
    assert "extended by  (1)\n   └─ DiskStore" in run("graph", "hierarchy", "Store").out
    assert "depends on  (1)\n   └─ shop/store.py" in run("graph", "dependencies", "shop/app.py").out
    assert "could break  (1)\n   └─ shop/app.py" in run("graph", "impact", "shop/store.py").out
    assert run("graph", "related", "Store.get").out.splitlines()[0].split() == [
        *("SCORE", "NAME", "KIND", "SOURCE", "PLACE"),
    ]


def test_a_file_of_this_machine_is_that_of_its_source(shop: Path, run: Run, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(shop / "shop")
    config = str(shop.parent / "home" / "knowledge.yaml")
    shown = run("graph", "usages", "store.py:3", "--config", config).out
    assert shown.startswith("Store.get  shop-code:shop/store.py:2")


def test_json_is_the_whole_answer(shop: Path, run: Run):
    answer = run("graph", "usages", "Store.get", "--json").json
    assert [node["name"] for node in answer["nodes"]] == ["Store.get", "main"]
    (link,) = answer["edges"]
    assert (link["kind"], link["path"], link["lines"]) == ("calls", "shop/app.py", [5])


def test_an_ambiguous_name_lists_what_it_may_mean(shop: Path, run: Run):
    shown = run("graph", "usages", "find", code=2)
    assert "Store.find" in shown.out and "DiskStore.find" in shown.out
    assert "'find' may mean 2 things: give more of its name, path:name, or a source" in shown.err
    assert run("graph", "usages", "find", "--json", code=2).json["candidates"][0]["name"] == "DiskStore.find"


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["usages", "Stroe"], 3, "there is no symbol 'Stroe' in the code graph: did you mean Store?"),
        (["usages", "shop/stor.py"], 3, "did you mean shop/store.py?"),
        (["usages", ""], 2, "give a symbol, a path, or path:line"),
        (["calls", "main", "--depth", "11"], 2, "the depth is 11 steps; allowed: at most 10"),
        (["calls", "main", "--direction", "up"], 2, "'up' is not one of"),
        (["calls", "main", "--mermaid", "--dot"], 2, "give --mermaid or --dot, not both"),
        (["usages", "main", "--source", "nowhere"], 3, "there is no symbol 'main' in the code graph"),
    ],
)
def test_what_makes_no_sense_is_told_in_one_sentence(
    shop: Path, run: Run, arguments: list[str], code: int, sentence: str
):
    shown = run("graph", *arguments, code=code)
    assert shown.out == ""
    assert sentence in shown.err
    assert shown.err.count("\n") == 1


def test_a_store_without_code_says_how_to_get_a_graph(home: Path, repository: Path, run: Run):
    (repository / "src" / "sessions.py").unlink()
    commit(repository, "Prose alone")
    run("index", "--repo", str(repository))
    shown = run("graph", "usages", "x", code=3)
    assert "the code graph is not built: run `knowledge refresh`" in shown.err


@pytest.mark.slow
def test_pictures_are_in_the_languages_of_mermaid_and_graphviz(shop: Path, run: Run):
    chart = run("graph", "hierarchy", "Store", "--mermaid").out.splitlines()
    assert chart[0] == "flowchart LR"
    assert "    n1 ==>|extends| n0" in chart
    graph = run("graph", "hierarchy", "Store", "--dot").out
    assert "n1 -> n0 [label=extends, style=bold];" in graph


def hostile() -> GraphResponse:
    names = ['a"b', "c\\", "d#e;", "<script>", "f\ng", "`h`", "é😀", "x" * 300, 'end"] --> n1; subgraph']
    nodes = tuple(GraphNode(name, name, "function", name, "s", f'p/{name}"') for name in names)
    links = tuple(GraphEdge("calls", names[0], name, "p", (1,), 1.0) for name in names)
    return GraphResponse("id", 1.0, 1, (), "calls", "a", nodes, links)


def test_a_box_says_the_path_of_a_definition_and_that_of_a_file_once():
    nodes = (
        GraphNode("f", "p.py", "file", "p.py", "s", "p.py"),
        GraphNode("d", "go", "function", "go", "s", "p.py"),
    )
    chart = render_mermaid(GraphResponse("id", 1.0, 1, (), "calls", "go", nodes, ()))
    assert chart.splitlines()[1:3] == ['    n0["p.py"]', '    n1["go<br/>p.py"]']


def test_hostile_names_stay_within_their_boxes():
    chart = render_mermaid(hostile())
    assert len(chart.splitlines()) == 1 + 9 + 9 + 1
    for line in chart.splitlines()[1:10]:
        assert re.fullmatch(r'    n\d\["[^"<>`]*(<br/>)?[^"<>`]*"\]', line), line


@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")
def test_graphviz_reads_a_graph_with_hostile_names():
    drawn = subprocess.run(
        ["dot", "-Tplain"], input=render_dot(hostile()), text=True, capture_output=True, check=True
    )
    assert drawn.stdout.count("\nnode ") == 9


def test_a_graph_with_hostile_names_is_balanced():
    for line in render_dot(hostile()).splitlines()[2:11]:
        quoted = re.findall(r'"(?:[^"\\]|\\.)*"', line)
        assert len(quoted) == 1, line
        assert line.replace(quoted[0], "").count('"') == 0

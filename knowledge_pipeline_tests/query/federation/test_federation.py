"""Four stores that cut one corpus by source answer as one store with all of it."""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from knowledge_pipeline import Filters, KnowledgeBase
from knowledge_pipeline.contract.responses import SearchResponse
from knowledge_pipeline.errors import ConfigError, NotFound, StoreUnavailable
from knowledge_pipeline.query.access import Access
from knowledge_pipeline_tests.fakes.openai_server import OpenAIServer
from knowledge_pipeline_tests.query.federation import world as worlds
from knowledge_pipeline_tests.query.federation.world import World

TOLERANCE = 1e-5  # of scores: Lance computes with floats of 32 bits, and adds in its own order
CALLERS = {
    "operator": Access.operator(),
    "public": Access.public(),
    "acme": Access("acme", frozenset()),
    "ops of acme": Access("acme", frozenset({"ops"})),
    "globex": Access("globex", frozenset({"ops"})),
}
_DOCSTRING = re.compile(r'"""([A-Z][^\n"]{20,110})[.:]')
_NAME = re.compile(r"\b(?:def|class) ([A-Za-z_]\w{5,40})")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, embedding_server: OpenAIServer) -> Iterator[World]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(worlds.KEY_VARIABLE, embedding_server.key)
        yield worlds.build_world(tmp_path_factory.mktemp("federation"), embedding_server)


@pytest.fixture(scope="module")
def union(world: World) -> Iterator[KnowledgeBase]:
    with KnowledgeBase.open(world.union) as base:
        yield base


@pytest.fixture(scope="module")
def federation(world: World) -> Iterator[KnowledgeBase]:
    with KnowledgeBase.open(world.federation) as base:
        yield base


def build_questions(world: World, *, count: int) -> list[str]:
    """First lines of docstrings, words of them, and names, of all sources alike."""
    chance = random.Random(19)
    texts = [path.read_text() for path in sorted(world.files.rglob("*.py"))]
    sentences = sorted({found for text in texts for found in _DOCSTRING.findall(text)})
    names = sorted({found for text in texts for found in _NAME.findall(text)})
    words = [
        " ".join(chance.sample(sentence.split(), min(3, len(sentence.split()))))
        for sentence in chance.sample(sentences, 60)
    ]
    return chance.sample(
        [*chance.sample(sentences, 60), *chance.sample(names, 30), *words, "the the of a"], count
    )


def require_same(found: SearchResponse, expected: SearchResponse) -> None:
    """The same results with the same scores; those of equal scores in any order."""
    assert found.degraded == expected.degraded
    scores = [each.score for each in expected.results]
    assert [each.score for each in found.results] == pytest.approx(scores, abs=TOLERANCE)
    ours, last = {each.id: each.score for each in found.results}, min(scores, default=0.0)
    for each in expected.results:
        if each.score > last + TOLERANCE:  # else others, which are cut off, may have the same score
            assert ours[each.id] == pytest.approx(each.score, abs=TOLERANCE)


@pytest.mark.sampled
@pytest.mark.parametrize("caller", CALLERS)
def test_questions_get_the_results_of_one_store(
    world: World, union: KnowledgeBase, federation: KnowledgeBase, caller: str
) -> None:
    access, found = CALLERS[caller], 0
    for question in build_questions(world, count=15):
        asked: dict[str, Any] = {"limit": 10, "access": access}
        expected = union.search(question, **asked)
        require_same(federation.search(question, **asked), expected)
        found += len(expected.results)
    assert found > 80


@pytest.mark.sampled
@pytest.mark.parametrize("type", ["code", "historical", "similar"])
def test_types_get_the_results_of_one_store(
    world: World, union: KnowledgeBase, federation: KnowledgeBase, type: Any
) -> None:
    for question in build_questions(world, count=15):
        require_same(federation.search(question, type=type), union.search(question, type=type))
    like: dict[str, Any] = {"path": "query/rank.py", "limit": 8}
    expected = union.similar(**like)
    assert expected.results
    require_same(federation.similar(**like), expected)
    text = (world.files / "keeping/store/search.py").read_text()[:3000]
    require_same(federation.similar(text=text), union.similar(text=text))


@pytest.mark.sampled
@pytest.mark.parametrize(
    "filters",
    [
        Filters(source_types=("markdown",)),
        Filters(sources=("asking", "pages")),
        Filters(paths=("store/**",)),
        Filters(languages=("python",), paths=("**/p*.py",)),
        Filters(sources=("nowhere",)),
    ],
)
def test_filters_hold_in_every_store(
    world: World, union: KnowledgeBase, federation: KnowledgeBase, filters: Filters
) -> None:
    for question in build_questions(world, count=8):
        asked: dict[str, Any] = {"filters": filters, "limit": 10}
        require_same(federation.search(question, **asked), union.search(question, **asked))


def test_neighbours_and_the_graph_lead_from_one_store_to_another(
    union: KnowledgeBase, federation: KnowledgeBase
) -> None:
    asked = "Compares candidates by vector and by words", {"type": "code", "limit": 10}
    ours, theirs = federation.search(asked[0], **asked[1]), union.search(asked[0], **asked[1])
    assert [each.graph for each in ours.results] == [each.graph for each in theirs.results]
    assert any(each.graph for each in theirs.results)
    for target in ("IndexReader", "keeping:store/search.py", "require_modules"):
        try:
            expected = union.graph.find_usages(target)
        except NotFound:
            with pytest.raises(NotFound):
                federation.graph.find_usages(target)
            continue
        found = federation.graph.find_usages(target)
        assert {node.id for node in found.nodes} == {node.id for node in expected.nodes}
        assert {(e.source, e.target, e.kind) for e in found.edges} == {
            (e.source, e.target, e.kind) for e in expected.edges
        }


def test_ids_context_and_status_are_those_of_one_store(
    union: KnowledgeBase, federation: KnowledgeBase
) -> None:
    for source in worlds.SOURCES:
        id_ = union.search("the", filters=Filters(sources=(source,))).results[0].id
        ours, theirs = federation.get(id_).results, union.get(id_).results
        assert [(each.id, each.content, each.graph, each.related) for each in ours] == [
            (each.id, each.content, each.graph, each.related) for each in theirs
        ]
        assert federation.get(id_, access=CALLERS["ops of acme"]).results
    private = union.search("request", filters=Filters(sources=("serving",))).results[0].id
    with pytest.raises(NotFound):
        federation.get(private, access=CALLERS["acme"])
    ours, theirs = (
        federation.context("why are scores of two searches fused"),
        union.context("why are scores of two searches fused"),
    )
    assert ours.text == theirs.text
    ours, theirs = federation.status(), union.status()
    assert (ours.rows, ours.by_source, ours.by_type) == (theirs.rows, theirs.by_source, theirs.by_type)
    for access in CALLERS.values():
        ours, theirs = federation.list_sources(access=access), union.list_sources(access=access)
        assert ours.sources == theirs.sources
    assert [source.id for source in federation.list_sources().sources] == sorted(worlds.SOURCES)


def test_a_store_that_is_down_is_named_and_the_others_answer(
    world: World, embedding_server: OpenAIServer, tmp_path: Path
) -> None:
    copy = shutil.copytree(world.root, tmp_path / "copy")
    moved = World(copy, copy / "files")
    with KnowledgeBase.open(moved.federation) as base:
        before = base.search("how is a question understood", limit=20)
        kept = base.get("asking:query/rank.py").results
        assert before.degraded == ()
        shutil.rmtree(moved.member("pages") / ".knowledge")
        after = base.search("how is a question understood", limit=20, explain=True)
        assert after.degraded == ("store:pages",)
        assert after.explain and after.explain["degraded"]["store:pages"]
        assert {each.citation.source for each in after.results} <= worlds.SOURCES.keys() - {"pages"}
        found = base.get("asking:query/rank.py")
        assert (found.degraded, found.results) == (("store:pages",), kept)
        with pytest.raises(StoreUnavailable, match="pages"):
            base.get("pages:security.md")
        assert base.health()["store:pages"].status == "unhealthy"
        assert base.graph.find_usages("IndexReader").degraded == ("store:pages",)
        listed = base.list_sources()
        assert (listed.degraded, "pages" in {it.id for it in listed.sources}) == (("store:pages",), False)
        for source in worlds.SOURCES:
            shutil.rmtree(moved.member(source) / ".knowledge", ignore_errors=True)
        with pytest.raises((StoreUnavailable, NotFound)):
            base.search("how is a question understood")


def test_files_that_vanish_under_a_running_server_leave_the_other_stores(
    world: World, tmp_path: Path
) -> None:
    copy = shutil.copytree(world.root, tmp_path / "copy")
    moved = World(copy, copy / "files")
    with KnowledgeBase.open(moved.federation) as base:
        shutil.rmtree(moved.member("serving") / ".knowledge" / "index")
        found = base.search("which forms does the page send", limit=10)
        assert found.degraded == ("store:serving",)
        assert found.results


def test_stores_with_a_source_in_common_are_refused(
    world: World, embedding_server: OpenAIServer, tmp_path: Path
) -> None:
    stores = [{"name": "one", "path": str(world.union)}, {"name": "two", "path": str(world.member("pages"))}]
    embedding = worlds.dump_embedding(embedding_server)
    worlds.write_yaml(tmp_path, {"embedding": embedding, "federation": {"stores": stores}})
    with pytest.raises(ConfigError, match="both have a source 'pages'"):
        KnowledgeBase.open(tmp_path)


def test_a_store_whose_project_is_gone_is_missing_and_a_federation_of_none_is_an_error(
    world: World, embedding_server: OpenAIServer, tmp_path: Path
) -> None:
    embedding = worlds.dump_embedding(embedding_server)
    gone = {"name": "gone", "path": str(tmp_path / "nowhere")}
    stores = [{"name": "pages", "path": str(world.member("pages"))}, gone]
    worlds.write_yaml(tmp_path, {"embedding": embedding, "federation": {"stores": stores}})
    with KnowledgeBase.open(tmp_path) as base:
        assert base.search("security").degraded == ("store:gone",)
    worlds.write_yaml(tmp_path, {"embedding": embedding, "federation": {"stores": [gone]}})
    with pytest.raises(ConfigError, match="gone"):
        KnowledgeBase.open(tmp_path)

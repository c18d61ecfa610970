"""Places as callers write them: absolute, by backslashes, with lines or names."""

from __future__ import annotations

from pathlib import Path

import pytest

from knowledge_pipeline import KnowledgeBase
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.config.sources import SourceConfig
from knowledge_pipeline.errors import InvalidQuery, NotFound
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.places import Place, SourceFolders, parse_place
from knowledge_pipeline.stages import pipeline
from knowledge_pipeline.store.lake import Lake

CODE = '''class Store:
    """Keeps payments."""

    def get(self, key):
        """The payment of a key."""
        return self.put(key)

    def put(self, key):
        """Keep a payment."""
        return key
'''


def source(id_: str, folder: Path, **access: object) -> SourceConfig:
    connection = {"type": "local", "path": str(folder)}
    entry = {
        "id": id_,
        "type": "code",
        "connection": connection,
        "access": {"visibility": "public", **access},
    }
    return SourceConfig.model_validate(entry)


@pytest.fixture(scope="module")
def project(tmp_path_factory, server_settings) -> Settings:
    root = tmp_path_factory.mktemp("places")
    for name in ("shop", "hidden"):
        (root / name / "src").mkdir(parents=True)
        (root / name / "src/store.py").write_text(CODE)
        (root / name / "src" / f"{name}_other.py").write_text(f"def {name}_other():\n    return 1\n")
    sources = (
        source("shop", root / "shop"),
        source("hidden", root / "hidden", visibility="tenant", tenant="acme"),
    )
    settings = server_settings.model_copy(update={"store": root / "store", "sources": sources})
    outcome = pipeline.refresh(Lake(settings.store), settings, sources)
    assert not outcome.failures
    return settings


@pytest.fixture(scope="module")
def server_settings(server) -> Settings:
    from knowledge_pipeline_tests.query.conftest import endpoint

    return Settings(embedding=endpoint(server))


@pytest.fixture(scope="module")
def shop(project):
    with KnowledgeBase(project, access=Access.public()) as base:
        yield base


def forms(folder: Path, path: str) -> list[str]:
    """One file, as callers write it."""
    whole = (folder / path).as_posix()
    return [path, f"/{path}", f"./{path}", path.replace("/", "\\"), whole, f"file://{whole}"]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("src/a.py:10-24", Place("src/a.py", (10, 24))),
        ("src/a.py#L10-L24", Place("src/a.py", (10, 24))),
        ("shop:src/a.py:7", Place("shop:src/a.py", (7, 7))),
        ("src/a.py::Store.get", Place("src/a.py", name="Store.get")),
        ("src/a.py#get", Place("src/a.py", name="get")),
        ("src/a.py:get", Place("src/a.py", name="get")),
        ("src/a.py:Store::get", Place("src/a.py:Store::get")),
        ("owner/name#12", Place("owner/name#12")),
        ("shop:src/a.py:get", Place("shop:src/a.py", name="get")),
        ("docs:guides/a.md", Place("docs:guides/a.md")),
        ("wiki:https://example.org/a#b", Place("wiki:https://example.org/a#b")),
        ("Store#get", Place("Store#get")),
        ("std::vector", Place("std::vector")),
        ("App\\Models\\User", Place("App\\Models\\User")),
    ],
)
def test_a_place_is_a_path_and_lines_or_a_name(text, place):
    assert parse_place(text) == place


def test_a_file_is_found_however_it_is_written(project, shop):
    folder = project.sources[0].connection.path
    expected = [result.id for result in shop.similar(path="src/store.py").results]
    assert expected
    for text in forms(folder, "src/store.py"):
        assert [result.id for result in shop.similar(path=text).results] == expected, text
        assert shop.get(text).results[0].citation.path == "src/store.py", text
        assert shop.graph.find_usages(f"{text}:Store.put").targets[0].name == "Store.put", text
        context = shop.context(_task(text))
        assert {"src/shop_other.py", "src/store.py"} >= {it.citation.path for it in context.excerpts}, text
        assert "src/store.py" in context.searches[1].query, text
        found = shop.search("payment", filters={"paths": [text]})
        assert {result.citation.path for result in found.results} == {"src/store.py"}, text
        if not text.startswith("file:"):
            typed = shop.search(f"payment path:{text}")
            assert {result.citation.path for result in typed.results} == {"src/store.py"}, text
    everything = shop.search(f'payment path:"{folder}"').results
    assert "src/shop_other.py" in {result.citation.path for result in everything}


def _task(file: str):
    from knowledge_pipeline.contract.requests import Task

    return Task("keep a payment", file=file)


def test_a_target_may_be_what_an_answer_shows(shop):
    chunk = next(it for it in shop.get("shop:src/store.py").results if it.metadata.get("symbol") or True)
    for target in (
        "src/store.py:Store.put",
        "src/store.py::Store.put",
        "src/store.py#put",
        "shop:src/store.py:8-10",
        "shop:src/store.py:put",
        "src/store.py#L9",
    ):
        assert [node.name for node in shop.graph.find_usages(target).targets] == ["Store.put"], target
    assert [node.path for node in shop.graph.find_usages(chunk.id).targets] == ["src/store.py"]
    assert shop.get("shop:src/store.py:9-9").results
    assert shop.get("src/store.py::put").results[0].citation.path == "src/store.py"
    assert shop.related("src/store.py:3-5").documents[0].path == "src/store.py"


def test_a_folder_of_a_source_that_the_caller_may_not_see_is_no_folder(project, shop):
    hidden = (project.sources[1].connection.path / "src/hidden_other.py").as_posix()
    for text in (hidden, f"file://{hidden}"):
        with pytest.raises(NotFound) as refusal:
            shop.similar(path=text)
        assert "nearest: src/hidden" not in str(refusal.value)
    (note,) = shop.search(f"other path:{hidden}").notes
    assert note.startswith(f"`path:{hidden}` was searched for as words")
    with KnowledgeBase(project, access=Access("acme", frozenset())) as base:
        assert base.get(hidden).results[0].citation.source == "hidden"


def test_a_path_of_another_machine_is_refused_in_one_sentence(shop):
    for ask in (
        lambda: shop.similar(path="C:\\work\\shop\\src\\store.py"),
        lambda: shop.search("payment", filters={"paths": ["file:///C:/projects/src"]}),
        lambda: shop.get("C:\\work\\shop\\src\\store.py"),
        lambda: shop.graph.find_usages("C:\\work\\shop\\src\\store.py:10"),
    ):
        with pytest.raises(InvalidQuery, match="give the path within its source"):
            ask()
    answer = shop.search("payment", filters={"paths": ["/workspace/shop/src/store.py"]})
    assert answer.results == () and "the nearest: src/store.py" in answer.notes[0]


def test_folders_are_those_of_visible_sources_alone(project):
    folders = SourceFolders(project.sources, Access.public()).list_folders()
    assert {source for source, _ in folders} == {"shop"}

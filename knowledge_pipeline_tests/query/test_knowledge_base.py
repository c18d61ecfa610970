from __future__ import annotations

import asyncio
import inspect
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from knowledge_pipeline import AsyncKnowledgeBase, KnowledgeBase
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.errors import ConfigError
from knowledge_pipeline.query.graph_queries import AsyncGraph, Graph
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline_tests.query.search.rows import publish, row, write


@pytest.fixture
def base(base: KnowledgeBase, lake: Lake, space: str) -> KnowledgeBase:
    write(lake, space, [row("alpha", "a.py"), row("beta", "b.md", source="docs", source_type="markdown")])
    publish(lake)
    return base


def test_asynchronous_code_gets_the_same_answers(base: KnowledgeBase, settings: Settings):
    async def query():
        async with AsyncKnowledgeBase.open(settings) as knowledge:
            return await asyncio.gather(
                knowledge.search("alpha"),
                knowledge.similar(path="a.py"),
                knowledge.get("app:a.py"),
                knowledge.status(),
            )

    search, similar, got, status = asyncio.run(query())
    assert search.results == base.search("alpha").results != ()
    assert similar.results == base.similar(path="a.py").results
    assert got.results == base.get("app:a.py").results
    assert status == base.status()


def test_many_threads_may_ask_at_once(base: KnowledgeBase):
    expected = base.search("alpha").results
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: base.search("alpha").results, range(40)))
    assert answers == [expected] * 40


def test_status_counts_rows_by_source_type_and_space(base: KnowledgeBase, lake: Lake, space: str):
    status = base.status()
    assert (status.release, status.rows, status.by_space, status.unindexed_rows) == (
        1,
        2,
        {space: 2},
        {space: 0},
    )
    assert status.as_json()["released_at"].startswith("20")


def test_health_notices_a_release_that_is_gone_although_it_is_open(base: KnowledgeBase, lake: Lake):
    base.search("alpha")
    health = base.health()
    assert (health["store"].status, health["embedder"].status) == ("ok", "ok")
    shutil.rmtree(lake.root / "index")
    health = base.health()
    assert (health["store"].status, health["embedder"].status) == ("unhealthy", "unknown")


def test_it_opens_by_folder_by_file_and_below_a_folder(tmp_path: Path):
    (tmp_path / "knowledge.yaml").write_text("version: 1\nsources: []\n")
    (tmp_path / "below").mkdir()
    for place in (tmp_path, tmp_path / "knowledge.yaml", str(tmp_path / "below")):
        with KnowledgeBase.open(place) as opened:
            assert opened.settings.store == tmp_path / ".knowledge"
    with pytest.raises(ConfigError):
        KnowledgeBase.open(tmp_path / "nowhere.yaml")


def test_several_event_loops_may_share_one(base: KnowledgeBase, settings: Settings):
    expected = base.search("alpha").results
    knowledge = AsyncKnowledgeBase(settings)

    def query(_: int) -> object:
        return asyncio.run(knowledge.search("alpha")).results

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(query, range(8))) == [expected] * 8
    knowledge.close()
    with pytest.raises(RuntimeError, match="closed"):
        query(0)


def test_waiting_and_asynchronous_methods_have_the_same_signatures():
    pairs = [(KnowledgeBase, AsyncKnowledgeBase), (Graph, AsyncGraph)]
    for waiting, asynchronous in pairs:
        methods = {
            name: method
            for name, method in vars(asynchronous).items()
            if inspect.iscoroutinefunction(method) and not name.startswith("_")
        }
        assert len(methods) >= 8
        for name, method in methods.items():
            assert inspect.signature(getattr(waiting, name)) == inspect.signature(method)


def test_a_closed_base_says_so_instead_of_waiting_forever(base: KnowledgeBase):
    base.search("alpha")
    base.close()
    base.close()
    with pytest.raises(RuntimeError, match="closed"):
        base.search("alpha")


def test_importing_the_interface_imports_nothing_heavy():
    program = (
        "import sys; from knowledge_pipeline import AsyncKnowledgeBase, KnowledgeBase, Access, Filters; "
        "heavy = {'torch', 'sentence_transformers', 'lancedb', 'lance', 'dagster', 'onnxruntime', 'httpx2'}; "
        "sys.exit(str(heavy & set(sys.modules)) if heavy & set(sys.modules) else 0)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=Path.cwd())
    assert (done.returncode, done.stderr) == (0, "")

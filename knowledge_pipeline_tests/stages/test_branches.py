"""A source that reads another branch: what differs is written, and every answer names the branch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from knowledge_pipeline import Filters, KnowledgeBase
from knowledge_pipeline import maintenance as purge
from knowledge_pipeline.errors import NotFound
from knowledge_pipeline.extensions.publish import (
    PublishedSpace,
    _Rows,  # pyright: ignore[reportPrivateUsage]
)
from knowledge_pipeline.sql_models.run import run_query
from knowledge_pipeline.stages import pipeline as release
from knowledge_pipeline.stages.context import RefreshContext
from knowledge_pipeline.store import graph as symbol_payload
from knowledge_pipeline.store import search as payload
from knowledge_pipeline.store.filters import eq
from knowledge_pipeline.store.reconcile import plan_changes
from knowledge_pipeline.store.release import publish_if_same_rows
from knowledge_pipeline.store.search import SourceLocation, write_location
from knowledge_pipeline.store.tables import Table
from knowledge_pipeline_tests.conftest import Project, tables
from knowledge_pipeline_tests.connectors.repositories import Repository
from knowledge_pipeline_tests.refreshed import refresh_source

URL = "https://github.com/ann/shop.git"
PAGES = "https://github.com/ann/shop/blob/"
FILES = 10
CHANGED = "goods/f3.py"


@pytest.fixture
def shop(project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A released source on the branch `main`; on `next/one` one of its ten files differs, on `same` none."""
    repository = Repository(tmp_path / "repository")
    texts = {f"goods/f{at}.py": f"def albatross_{at}():\n    return {at}\n" for at in range(FILES)}
    repository.write({**texts}).commit()
    repository.git("branch", "same")
    repository.git("checkout", "-qb", "next/one")
    repository.write({CHANGED: "def albatross_3():\n    return albatross_3()\n"}).commit()
    config = tmp_path / "gitconfig"
    config.write_text(f'[url "{repository.root.as_uri()}"]\n\tinsteadOf = {URL}\n')
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    switch(project, "main")
    project.refresh()
    return project


def switch(project: Project, branch: str) -> None:
    connection = {"type": "git", "url": URL, "branch": branch}
    project.sources["shop"] = {"id": "shop", "type": "code", "connection": connection}


@pytest.fixture
def base(shop: Project) -> Iterator[KnowledgeBase]:
    """Stays open while the source and the store change."""
    with KnowledgeBase(shop.settings) as opened:
        yield opened


def index_table(project: Project) -> Table:
    ((space, dimensions),) = project.lake.list_spaces().items()
    return project.lake.index(space, dimensions)


def written_at(table: Table, column: str) -> dict[tuple[str, str], Any]:
    """When each row was written, by path and id."""
    rows = table.read_rows(["path", "id", column]).to_pylist()
    return {(row["path"], row["id"]): row[column] for row in rows}


def require_answers(base: KnowledgeBase, branch: str, *, other: str) -> None:
    """Every answer names the branch, and filters know it."""
    found = base.search("albatross", limit=FILES).results
    assert len(found) == FILES
    for each in found:
        assert each.citation.url == f"{PAGES}{branch}/{each.citation.path}#L1-L2"
        assert each.metadata["branch"] == branch
    assert base.get("shop:goods/f5.py").results[0].metadata["branch"] == branch
    on_branch = base.search(f"albatross branch:{branch}", limit=FILES).results
    assert {each.id for each in on_branch} == {each.id for each in found}
    assert (
        len(base.search("albatross", filters=Filters(branches=(branch, "none")), limit=FILES).results)
        == FILES
    )
    assert not base.search("albatross", filters=Filters(branches=(other,))).results
    [node] = base.graph.find_usages("albatross_5", filters=Filters(branches=(branch,))).nodes
    assert node.url == f"{PAGES}{branch}/goods/f5.py#L1-L2"
    with pytest.raises(NotFound):
        base.graph.find_usages("albatross_5", filters=Filters(branches=(other,)))


def test_a_switch_writes_the_rows_of_the_files_that_differ(shop: Project) -> None:
    symbols, edges = shop.lake.graph_table("symbols"), shop.lake.graph_table("edges")
    watched = [(index_table(shop), "updated_at"), (symbols, "indexed_at"), (edges, "indexed_at")]
    before = [written_at(*each) for each in watched]
    switch(shop, "next/one")
    outcome = shop.refresh()
    assert not outcome.failures
    for rows, (table, column) in zip(before, watched, strict=True):
        now = written_at(table, column)
        assert {path for path, id_ in now if now[path, id_] != rows.get((path, id_))} == {CHANGED}
    stats = {each.stage: each for each in outcome.stats}
    assert (stats["index"].added, stats["index"].removed, stats["index"].unchanged) == (1, 1, FILES - 1)
    assert (stats["graph"].changed, stats["graph"].unchanged) == (1, FILES - 1)


@pytest.mark.slow
def test_a_switch_to_an_equal_branch_writes_no_row_and_is_released(
    shop: Project, base: KnowledgeBase
) -> None:
    before = written_at(index_table(shop), "updated_at")
    switch(shop, "same")
    outcome = shop.refresh()
    assert not any(each.has_changes for each in outcome.stats)
    assert written_at(index_table(shop), "updated_at") == before
    require_answers(base, "same", other="main")
    released = outcome.release
    assert released and shop.refresh().release.version == released.version  # type: ignore[union-attr]


def test_answers_name_the_branch_of_their_release(shop: Project, base: KnowledgeBase) -> None:
    require_answers(base, "main", other="next/one")
    switch(shop, "next/one")
    refresh_source(RefreshContext(shop.lake, shop.settings, shop.settings.sources[0]))
    require_answers(base, "main", other="next/one")
    with shop.lake.lock_index():
        assert publish_if_same_rows(shop.lake, keep=5) is None, "no check has seen the branch yet"
    release.release_newest(shop.lake, shop.settings)
    require_answers(base, "next/one", other="main")
    release.roll_back_release(shop.lake, shop.settings, 1, pin=False)
    require_answers(base, "main", other="next/one")
    shop.refresh()
    require_answers(base, "next/one", other="main")


@pytest.mark.slow
def test_a_switch_leaves_what_a_first_index_of_the_branch_leaves(shop: Project, tmp_path: Path) -> None:
    switch(shop, "next/one")
    shop.refresh()
    other = Project(tmp_path / "other", shop.embedding)
    switch(other, "next/one")
    other.refresh()
    assert tables(shop) == tables(other)
    shop.refresh(full=True)
    assert tables(shop) == tables(other)


@pytest.mark.slow
def test_a_source_that_is_no_longer_hosted_has_no_addresses(shop: Project, base: KnowledgeBase) -> None:
    shop.declare("shop", "code", shop.root / "repository")
    shop.refresh()
    found = base.search("albatross", limit=FILES).results
    assert {each.citation.url for each in found} == {None}
    assert not any("branch" in each.metadata for each in found)
    assert not base.search("albatross", filters=Filters(branches=("main",))).results


@pytest.fixture
def earlier(shop: Project) -> Project:
    """A store whose rows say branch and address themselves, as those of earlier programs do."""
    tables_ = [(index_table(shop), payload), (shop.lake.graph_table("symbols"), symbol_payload)]
    for table, payloads in tables_:
        rows: list[dict[str, Any]] = table.read_rows(table.schema.names).to_pylist()
        for row in rows:
            row |= {"branch": "main", "url": f"{PAGES}main/{row['path']}", "fingerprint": "earlier"}
            row["shown"] = payloads.build_payload(row)
        table.upsert(pa.Table.from_pylist(rows, schema=table.schema).to_batches())
    shop.lake.graph_table("symbols").update_where(eq("kind", "file"), made_of="earlier")
    shop.lake.graph_table("edges").update_where(eq("source", "shop"), branch="main")
    for table in (index_table(shop), *shop.lake.graph_tables().values()):
        write_location(table, "shop", SourceLocation())
    release.release_newest(shop.lake, shop.settings)
    return shop


def test_rows_of_an_earlier_program_answer_as_before(earlier: Project, base: KnowledgeBase) -> None:
    require_answers(base, "main", other="next/one")
    assert query_branches(earlier) == {("main", f"{PAGES}main/goods/f5.py")}
    earlier.refresh()
    require_answers(base, "main", other="next/one")
    switch(earlier, "next/one")
    earlier.refresh()
    require_answers(base, "next/one", other="main")
    release.roll_back_release(earlier.lake, earlier.settings, 2)
    require_answers(base, "main", other="next/one")


def query_branches(project: Project) -> set[tuple[str, str]]:
    """What models read of one file, from the index and the code graph."""
    found = set[tuple[str, str]]()
    for table in ("raw_index", "raw_symbols"):
        select = f"select branch, url from {table} where path = 'goods/f5.py'"
        found |= {
            (row["branch"], row["url"])
            for row in run_query(project.lake, [], select, limit=None).rows.to_pylist()
        }
    edges = run_query(project.lake, [], "select distinct branch from raw_edges", limit=None).rows.to_pylist()
    assert {row["branch"] for row in edges} == {branch for branch, _ in found}
    return found


@pytest.mark.slow
def test_models_read_the_branch_and_the_address(shop: Project) -> None:
    assert query_branches(shop) == {("main", f"{PAGES}main/goods/f5.py")}
    switch(shop, "next/one")
    shop.refresh()
    assert query_branches(shop) == {("next/one", f"{PAGES}next/one/goods/f5.py")}
    assert run_query(
        shop.lake, [], "select count(*) as rows from raw_index", limit=None
    ).rows.to_pylist() == [{"rows": FILES}]


@pytest.mark.slow
def test_a_publication_writes_the_rows_of_another_branch(shop: Project) -> None:
    table = index_table(shop)
    space = PublishedSpace(table.name, shop.lake.list_spaces()[table.name])
    held = _Rows(shop.lake, space, table.version, ()).load_marks()
    first = table.version
    switch(shop, "next/one")
    shop.refresh()
    rows = _Rows(shop.lake, space, index_table(shop).version, ())
    plan = plan_changes(rows.load_marks(), held)
    assert (len(plan.added), len(plan.changed), len(plan.removed)) == (1, FILES - 1, 1)
    written = pa.Table.from_batches(list(rows.iter_batches(plan))).to_pylist()
    assert {(row["branch"], row["url"].removesuffix(row["path"])) for row in written} == {
        ("next/one", f"{PAGES}next/one/")
    }
    assert _Rows(shop.lake, space, first, ()).load_marks() == held


@pytest.mark.slow
def test_a_purge_erases_where_the_files_were(shop: Project) -> None:
    purge.purge_source(shop.lake, shop.settings, "shop")
    files = [path for path in shop.lake.folder.rglob("*") if path.is_file() and "cache" not in path.parts]
    assert not [path for path in files if PAGES.encode() in path.read_bytes()]

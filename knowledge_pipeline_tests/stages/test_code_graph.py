"""The stage `graph`: real folders and repositories in, rows of the code graph out."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from knowledge_pipeline import KnowledgeBase
from knowledge_pipeline import maintenance as maintain
from knowledge_pipeline.maintenance import (
    MaintenanceOptions,
    purge_documents,
    purge_former_types,
    purge_source,
)
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.stages import code_graph as refresh
from knowledge_pipeline.stages.context import RefreshContext, RefreshOptions
from knowledge_pipeline.stages.pipeline import roll_back_release
from knowledge_pipeline.store import held_terms
from knowledge_pipeline.store.filters import eq
from knowledge_pipeline.store.release import list_releases
from knowledge_pipeline.store.tables import Table
from knowledge_pipeline_tests.conftest import Project

STORE = '''\
class Store:
    """Keeps things."""

    def get(self, key):
        return self.find(key)

    def find(self, key):
        return key
'''
APP = """\
from lib.store import Store


def main():
    store = Store()
    return store.get("a")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "folder"
    (made / "lib").mkdir(parents=True)
    (made / "lib" / "__init__.py").write_text("from .store import Store\n")
    (made / "lib" / "store.py").write_text(STORE)
    (made / "app.py").write_text(APP)
    (made / "notes.md").write_text("# Notes\n")
    return made


@pytest.fixture
def code(project: Project, folder: Path) -> Project:
    project.declare("app", "code", folder)
    return project


def rows(project: Project, name: str) -> list[dict[str, Any]]:
    """All rows in a fixed order, but for the time of writing."""
    table = project.lake.graph_table(name)
    columns = [column for column in table.schema.names if column != "indexed_at"]
    return sorted(table.read_rows(columns).to_pylist(), key=lambda row: row["id"])


def state(project: Project) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    return rows(project, "symbols"), rows(project, "edges")


def calls(project: Project) -> set[tuple[str, str, str | None]]:
    found = rows(project, "edges")
    return {(r["source_name"], r["target_name"], r["target_path"]) for r in found if r["kind"] == "calls"}


def run(project: Project, source: str = "app", **options: bool):
    settings = project.settings
    (found,) = [each for each in settings.sources if each.id == source]
    return refresh.refresh(RefreshContext(project.lake, settings, found, RefreshOptions(**options)))


def test_a_refresh_builds_the_graph_and_releases_it(code: Project):
    outcome = code.refresh()
    assert not outcome.failures
    assert ("main", "Store.get", "lib/store.py") in calls(code)
    assert ("Store.get", "Store.find", "lib/store.py") in calls(code)
    with KnowledgeBase.open(code.settings) as base:
        answer = base.graph.find_usages("Store.get")
    assert [node.name for node in answer.matches] == ["main"]
    assert answer.release == outcome.release.version  # pyright: ignore


def test_refreshing_twice_writes_nothing(code: Project):
    code.refresh()
    before = {name: table.version for name, table in code.lake.graph_tables().items()}
    stats = run(code)
    assert (stats.added, stats.changed, stats.removed, stats.unchanged) == (0, 0, 0, 3)
    assert {name: table.version for name, table in code.lake.graph_tables().items()} == before
    assert code.refresh().release.has_changes is False  # pyright: ignore


def test_a_change_within_a_body_makes_one_file_anew(code: Project, folder: Path):
    code.refresh()
    (folder / "lib" / "store.py").write_text(
        STORE.replace("return key\n", "self.reset()\n        return key\n")
    )
    outcome = code.refresh()
    (stats,) = [each for each in outcome.stats if each.stage == "graph"]
    assert (stats.changed, stats.unchanged) == (1, 2)
    assert ("Store.find", "self.reset", None) in calls(code)


def test_a_new_function_makes_its_file_anew_and_brings_the_traces_of_others_up_to_date(
    code: Project, folder: Path
):
    code.refresh()
    before = {row["path"]: row["trace"] for row in rows(code, "symbols") if row["kind"] == "file"}
    (folder / "lib" / "store.py").write_text(f"{STORE}\n\ndef fresh():\n    return Store()\n")
    stats = run_whole(code)
    assert (stats.changed, stats.unchanged) == (1, 2)
    incremental = state(code)
    after = {row["path"]: row["trace"] for row in incremental[0] if row["kind"] == "file"}
    traced = {path for path in before if before[path] != after[path]}
    assert traced == {"app.py", "lib/__init__.py", "lib/store.py"}  # the last has another use itself
    run(code, full=True)
    assert state(code) == incremental


def times_by_target(project: Project, path: str) -> dict[tuple[str, int], Any]:
    """When the edges of a file were written, by their targets and lines."""
    columns = ["target_name", "line", "indexed_at"]
    found = project.lake.graph_table("edges").read_rows(columns, eq("path", path)).to_pylist()
    return {(row["target_name"], row["line"]): row["indexed_at"] for row in found}


def test_of_a_file_that_did_not_change_only_the_edges_that_differ_are_written(code: Project, folder: Path):
    (folder / "app.py").write_text(f"{APP}\n\ndef other():\n    return main()\n")
    code.refresh()
    before = times_by_target(code, "app.py")
    (folder / "lib" / "store.py").write_text(STORE.replace("def get", "def fetch"))
    assert run_whole(code).changed == 3  # a file hands the class on
    incremental, after = state(code), times_by_target(code, "app.py")
    assert ("Store.get", 6) in before.keys() - after.keys()
    assert after == {key: before[key] for key in after} != {}
    run(code, full=True)
    assert state(code) == incremental


def test_a_trace_of_a_store_that_did_not_keep_which_use_asked_what_is_used_once_more(
    code: Project, folder: Path
):
    code.refresh()
    symbols = code.lake.graph_table("symbols")
    for row in symbols.read_rows(symbols.schema.names, eq("kind", "file")).to_pylist():
        asked = {entry: answer for entry, answer in json.loads(row["trace"]).items() if entry != "uses"}
        row |= {"trace": json.dumps(asked), "fingerprint": row["fingerprint"][::-1]}
        symbols.upsert([pa.RecordBatch.from_pylist([row], schema=symbols.schema)])
    (folder / "lib" / "store.py").write_text(STORE.replace("def get", "def fetch"))
    assert run_whole(code).changed == 3
    (folder / "lib" / "store.py").write_text(STORE.replace("def get", "def take"))
    assert run_whole(code).changed == 2
    assert not any(target == "Store.get" for _, target, _ in calls(code))
    app = [row for row in rows(code, "symbols") if row["path"] == "app.py" and row["kind"] == "file"]
    assert "uses" in json.loads(app[0]["trace"])


def run_whole(project: Project):
    """A refresh; what it counted of the graph."""
    (stats,) = [each for each in project.refresh().stats if each.stage == "graph"]
    return stats


def test_a_renamed_method_is_unresolved_in_files_that_were_not_touched(code: Project, folder: Path):
    code.refresh()
    (folder / "lib" / "store.py").write_text(STORE.replace("def get", "def fetch"))
    code.refresh()
    assert not any(target == "Store.get" for _, target, _ in calls(code))
    (folder / "lib" / "store.py").write_text(STORE)
    code.refresh()
    assert ("main", "Store.get", "lib/store.py") in calls(code)


def test_a_removed_file_leaves_the_graph_and_what_it_was_asked_for(code: Project, folder: Path):
    code.refresh()
    shutil.rmtree(folder / "lib")
    code.refresh()
    assert {row["path"] for row in rows(code, "symbols")} == {"app.py"}
    assert {row["path"] for row in rows(code, "edges")} == {"app.py"}
    assert all(row["target_path"] in (None, "app.py") for row in rows(code, "edges"))
    assert code.lake.facts("code", "app").count_rows() == 1


def test_a_release_that_is_not_made_leaves_questions_as_they_were(code: Project, folder: Path):
    code.refresh()
    (folder / "app.py").write_text(APP.replace("def main", "def start"))
    from knowledge_pipeline_tests.refreshed import refresh_source

    settings = code.settings
    refresh_source(RefreshContext(code.lake, settings, settings.sources[0]))
    with KnowledgeBase.open(settings) as base:
        assert [node.name for node in base.graph.find_usages("Store.get").matches] == ["main"]


def test_an_empty_file_makes_a_package(code: Project, folder: Path):
    (folder / "lib" / "__init__.py").write_text("")
    code.refresh()
    names = {row["full_name"] for row in rows(code, "symbols") if row["kind"] == "class"}
    assert names == {"lib.store.Store"}
    (folder / "lib" / "__init__.py").unlink()
    code.refresh()
    assert {row["path"] for row in rows(code, "symbols")} == {"app.py", "lib/store.py"}


def test_manifests_say_where_modules_lie_and_an_edit_of_one_matters(project: Project, tmp_path: Path):
    repo = tmp_path / "web"
    (repo / "src" / "lib").mkdir(parents=True)
    (repo / "src" / "lib" / "money.ts").write_text("export function pay(): number { return 1 }\n")
    (repo / "src" / "app.ts").write_text('import { pay } from "@lib/money"\n\nfunction main() { pay() }\n')
    settings = '{"compilerOptions": {"baseUrl": ".", "paths": {"@lib/*": ["src/lib/*"]}}}'
    (repo / "tsconfig.json").write_text(settings)
    project.declare("web", "code", repo)
    project.refresh()
    assert ("main", "pay", "src/lib/money.ts") in calls(project)
    (repo / "tsconfig.json").write_text(settings.replace("@lib", "@other"))
    project.refresh()
    assert ("main", "pay", "src/lib/money.ts") not in calls(project)
    incremental = state(project)
    run(project, "web", full=True)
    assert state(project) == incremental


def test_what_a_package_re_exports_is_known_by_both_names(code: Project, tmp_path: Path):
    web = tmp_path / "web"
    web.mkdir()
    (web / "view.py").write_text("from lib import Store\n\n\ndef view():\n    return Store().get(1)\n")
    code.declare("web", "code", web)
    code.refresh()
    with KnowledgeBase.open(code.settings) as base:
        usages = base.graph.find_references("lib.store.Store")
        assert {(node.source, node.name) for node in usages.matches} >= {("web", "view"), ("web", "view.py")}
        assert [node.name for node in base.graph.find_references("lib.Store").targets] == ["Store"]
        assert "view" in {node.name for node in base.graph.find_references("lib.store.Store.get").matches}
        impact = base.graph.analyze_dependencies("lib/store.py")
        assert ("web", "view.py") in {(node.source, node.name) for node in impact.matches}


def test_access_follows_the_configuration(code: Project, folder: Path):
    code.refresh()
    private = {"visibility": "private", "tenant": "acme", "principals": ["jane"]}
    code.declare("app", "code", folder, access=private)
    code.refresh()
    assert {row["visibility"] for name in ("symbols", "edges") for row in rows(code, name)} == {"private"}
    from knowledge_pipeline.errors import NotFound

    with KnowledgeBase.open(code.settings) as base:
        assert base.graph.find_usages("Store.get", access=Access("acme", frozenset({"jane"}))).matches
        with pytest.raises(NotFound):
            base.graph.find_usages("Store.get", access=Access.public())


def test_a_secret_in_a_signature_does_not_reach_the_graph(code: Project, folder: Path):
    secret = "AKIA" + "Z7QDPLMN4RSTUVWX"
    (folder / "app.py").write_text(f'{APP}\n\ndef login(key="{secret}"):\n    return key\n')
    code.refresh()
    assert any(row["name"] == "login" for row in rows(code, "symbols"))
    assert secret not in str(state(code))
    assert secret not in str(code.lake.facts("code", "app").read_rows(["facts"]).to_pylist())


def test_a_source_that_is_no_code_has_no_graph(project: Project, folder: Path):
    project.declare("docs", "markdown", folder)
    outcome = project.refresh()
    assert [stats.stage for stats in outcome.stats] == ["snapshot", "chunks", "embeddings", "index"]
    assert project.lake.graph_tables() == {}


BODIES = ["return 1", "return alpha()", "return beta.run()", "return Gamma().go()", "return helper(2)"]
HEADS = [
    "",
    "from pkg.a import alpha\n",
    "from pkg import b as beta\n",
    "from pkg.c import Gamma\n",
    "from .a import *\nfrom .c import Gamma, helper\n",
]


def _edit(folder: Path, chosen: random.Random) -> None:
    """One change that a person could make: write, rename, or remove a file."""
    name = chosen.choice(["a", "b", "c", "d", "sub/e"])
    path = folder / "pkg" / f"{name}.py"
    if chosen.random() < 0.2:
        path.unlink(missing_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    functions = chosen.sample(["alpha", "run", "helper"], chosen.randint(0, 3))
    made = [chosen.choice(HEADS)]
    made += [f"\n\ndef {each}(x=0):\n    {chosen.choice(BODIES)}\n" for each in functions]
    if chosen.random() < 0.5:
        base = chosen.choice(["", "(Base)", "(Gamma)"])
        made.append(f"\n\nclass Gamma{base}:\n    def go(self):\n        {chosen.choice(BODIES)}\n")
    path.write_text("".join(made))


@pytest.mark.sampled
@pytest.mark.parametrize(("seed", "few_rows"), [(0, held_terms.FEW_ROWS), (1, held_terms.FEW_ROWS), (2, -1)])
def test_incremental_refreshes_leave_what_a_full_one_would(
    tmp_path: Path, project: Project, monkeypatch: pytest.MonkeyPatch, seed: int, few_rows: int
):
    """Of many rows the first edit looks through all traces, further ones through what is held of them."""
    monkeypatch.setattr(held_terms, "FEW_ROWS", few_rows)
    folder = tmp_path / "edited"
    (folder / "pkg").mkdir(parents=True)
    (folder / "pkg" / "__init__.py").write_text("from .c import Gamma\n")
    project.declare("app", "code", folder)
    chosen = random.Random(seed)
    for _ in range(8):
        for _ in range(chosen.randint(1, 3)):
            _edit(folder, chosen)
        project.refresh()
        incremental = state(project)
        run(project, full=True)
        assert state(project) == incremental


COMMITS = ("replace_rows", "update_where")


@pytest.mark.sampled
@pytest.mark.parametrize("reverted", [False, True], ids=["as edited", "reverted"])
@pytest.mark.parametrize("commits", range(3))
def test_a_kill_between_two_commits_is_put_right_by_the_next_refresh(
    code: Project, folder: Path, commits: int, reverted: bool, monkeypatch: pytest.MonkeyPatch
):
    code.refresh()
    (folder / "lib" / "store.py").write_text(STORE.replace("def get", "def fetch"))
    (folder / "new.py").write_text("from app import main\n\n\ndef again():\n    main()\n")
    (folder / "lib" / "__init__.py").unlink()
    _die_after(commits, monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        code.refresh()
    monkeypatch.undo()
    if reverted:
        (folder / "lib" / "store.py").write_text(STORE)
        (folder / "lib" / "__init__.py").write_text("from .store import Store\n")
    code.refresh()
    healed = state(code)
    run(code, full=True)
    assert state(code) == healed
    assert ("again", "main", "app.py") in calls(code)


@pytest.mark.slow
def test_an_edit_after_a_kill_asks_what_both_edits_can_have_changed(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    folder = tmp_path / "guessed"
    folder.mkdir()
    (folder / "use.py").write_text("def use(x):\n    x.only_here()\n")
    defining = folder / "defining.py"
    defining.write_text("class A:\n    pass\n")
    project.declare("app", "code", folder)
    project.refresh()
    found = "class A:\n    def only_here(self): pass\n"
    defining.write_text(found)
    _die_after(0, monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        project.refresh()
    monkeypatch.undo()
    defining.write_text(f"{found}\n\ndef other(): pass\n")
    project.refresh()
    assert ("use", "A.only_here", "defining.py") in calls(project)
    healed = state(project)
    run(project, full=True)
    assert state(project) == healed


def _die_after(commits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupt the process, as a kill would, when it is about to make one more commit to the graph."""
    made: list[str] = []
    for name in COMMITS:
        monkeypatch.setattr(Table, name, _counted(getattr(Table, name), made, commits))


def _counted(commit: Callable[..., None], made: list[str], allowed: int) -> Callable[..., None]:
    def counting(table: Table, *args: Any, **options: Any) -> None:
        if table.path.parent.name == "graph":
            if len(made) == allowed:
                raise KeyboardInterrupt
            made.append(commit.__name__)
        commit(table, *args, **options)

    return counting


def test_two_sources_do_not_touch_each_other(code: Project, tmp_path: Path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "app.py").write_text(APP)
    code.declare("other", "code", other)
    code.refresh()
    mine = [row for row in rows(code, "edges") if row["source"] == "app"]
    (other / "app.py").write_text("x = 1\n")
    code.refresh()
    assert [row for row in rows(code, "edges") if row["source"] == "app"] == mine
    assert code.lake.graph_table("symbols").count_rows(eq("source", "other")) >= 1


def test_a_purged_source_leaves_no_trace_in_any_version(code: Project, folder: Path):
    (folder / "lib" / "store.py").write_text(STORE.replace("Store", "Zebra"))
    code.refresh()
    (folder / "lib" / "store.py").write_text(STORE)
    code.refresh()
    purge_source(code.lake, code.settings, "app")
    assert {name: table.count_rows() for name, table in code.lake.graph_tables().items()} == {
        "symbols": 0,
        "edges": 0,
    }
    for place in ("graph", "facts"):
        held = [path for path in (code.lake.root / place).rglob("*") if path.is_file()]
        assert not any(word in path.read_bytes() for path in held for word in (b"Zebra", b"find"))


def test_a_purged_document_is_no_target_any_more_and_comes_back(code: Project, folder: Path):
    code.refresh()
    whole = state(code)
    purge_documents(code.lake, code.settings, "app", uri="lib/store.py")
    assert not any("store.py" in (row["target_path"] or row["path"]) for row in rows(code, "edges"))
    assert not code.refresh().failures
    assert state(code) == whole


def test_a_source_of_another_type_loses_its_graph(code: Project, folder: Path):
    code.refresh()
    code.declare("app", "markdown", folder)
    code.refresh()
    purge_former_types(code.lake, code.settings, "app")
    assert {table.count_rows() for table in code.lake.graph_tables().values()} == {0}
    assert not list((code.lake.root / "facts").rglob("*.lance"))


@pytest.mark.slow
def test_maintenance_keeps_every_answer_and_what_releases_name(code: Project, folder: Path):
    for number in range(14):
        (folder / "app.py").write_text(f"{APP}\n\ndef more{number}():\n    main()\n")
        code.refresh()
    before, first = state(code), list_releases(code.lake)[-5]
    done = maintain.refresh(code.lake, code.settings, options=MaintenanceOptions(grace_s=0.0))
    assert any(name.startswith("graph/") for each in done.actions.values() for name in each.touched)
    assert state(code) == before
    roll_back_release(code.lake, code.settings, first.release)
    with KnowledgeBase.open(code.settings) as base:
        assert [node.name for node in base.graph.find_usages("main").matches] == ["more9"]


def test_a_release_is_refused_while_an_edge_leads_nowhere(code: Project):
    code.refresh()
    symbols = code.lake.graph_table("symbols")
    symbols.delete_where(eq("name", "Store.get"))
    outcome = code.refresh()
    assert "edges of source 'app' lead to 1 definitions that do not exist" in str(outcome.failures["release"])
    assert not code.refresh(full=True).failures


def test_components_and_notebooks_are_in_the_graph_and_an_edit_of_an_alias_is_seen(
    project: Project, tmp_path: Path
) -> None:
    def write(**files: str) -> None:
        for name, text in files.items():
            path = tmp_path / "web" / name.replace("__", "/").replace("_", ".")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    cell = {"cell_type": "code", "source": "import shop\nshop.sell()"}
    write(
        src__Card_vue="<script setup>\nimport { sell } from '@/shop'\n</script>\n<b @click='sell()'/>",
        src__App_svelte="<script>\nimport Card from './Card.vue'\n</script>\n<Card/>",
        src__shop_ts="export function sell() {}",
        other__shop_ts="export function sell() {}",
        shop_py="def sell(): pass\n",
        sale_ipynb=json.dumps({"cells": [cell], "metadata": {}}),
        kit__tsconfig__base_json='{"compilerOptions": {"paths": {"@/*": ["../../src/*"]}}}',
        kit__tsconfig__package_json='{"name": "@acme/tsconfig"}',
        tsconfig_json='{"extends": "@acme/tsconfig/base.json"}',
    )
    project.declare("web", "code", tmp_path / "web")
    assert not project.refresh().failures
    uses = {("Card", "sell", "src/shop.ts"), ("App", "Card", "src/Card.vue"), ("", "sell", "shop.py")}
    assert calls(project) == uses
    with KnowledgeBase.open(project.settings) as base:
        (node,) = base.graph.find_usages("shop.py:sell").matches
    assert node.path == "sale.ipynb"
    chunks = project.lake.chunks("code", "web").read_rows(["start_line", "text"], eq("path", "sale.ipynb"))
    (chunk,) = chunks.to_pylist()
    (line,) = (
        row["line"] for row in rows(project, "edges") if row["kind"] == "calls" and row["path"] == node.path
    )
    assert chunk["text"].split("\n")[line - chunk["start_line"]] == "shop.sell()"
    write(kit__tsconfig__base_json='{"compilerOptions": {"paths": {"@/*": ["../../other/*"]}}}')
    project.refresh()
    assert ("Card", "sell", "other/shop.ts") in calls(project)
    edited = state(project)
    project.refresh(full=True)
    assert state(project) == edited

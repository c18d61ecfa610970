"""The asset `code/graph`: what it shows, what checks it, and when it is not made."""

import dagster as dg
import pytest

from knowledge_pipeline.checks.registry import list_checks
from knowledge_pipeline.store.filters import eq
from knowledge_pipeline_tests.defs.conftest import Workplace

CODE = (
    "import json\n\n\ndef add(a):\n    return json.dumps(twice(a))\n\n\ndef twice(a):\n    return a.other\n"
)
GRAPH = dg.AssetKey(["code", "graph"])


def test_a_run_shows_how_much_there_is_and_how_much_is_resolved(
    workplace: Workplace, instance: dg.DagsterInstance
) -> None:
    workplace.declare("one", a_py=CODE)
    result = workplace.run(instance, "refresh_code", "one")
    assert result.success
    (event,) = [each for each in result.get_asset_materialization_events() if each.asset_key == GRAPH]
    shown = event.materialization.metadata
    assert shown["symbols_by_kind"].value == {"file": 1, "function": 2}
    assert shown["symbols"].value == 3
    assert shown["edges"].value == sum(shown["edges_by_kind"].value.values())
    assert shown["edges_by_kind"].value["calls"] == 2
    (row,) = shown["resolved"].records
    assert row.data["language"] == "python"
    assert 0 < row.data["share resolved"] <= 1
    assert {record.data["name"] for record in shown["preview"].records} == {"", "add", "twice"}


def test_its_check_passes_before_the_release(workplace: Workplace, instance: dg.DagsterInstance) -> None:
    workplace.declare("one", a_py=CODE)
    result = workplace.run(instance, "refresh_code", "one")
    checks = {each.check_name: each for each in result.get_asset_check_evaluations()}
    assert checks["releasable"].passed
    assert "edges_end_at_symbols" in (checks["releasable"].description or "")
    assert workplace.lake.graph_table("symbols").version in set(_released(workplace).values())


@pytest.mark.slow
def test_an_edge_that_leads_nowhere_fails_the_check_and_holds_the_release(
    workplace: Workplace, instance: dg.DagsterInstance
) -> None:
    workplace.declare("one", a_py=CODE)
    assert workplace.run(instance, "refresh_code", "one").success
    released = _released(workplace)
    workplace.lake.graph_table("symbols").delete_where(eq("name", "twice"))
    result = workplace.run(instance, "refresh_code", "one")
    assert not result.success
    (check,) = [it for it in result.get_asset_check_evaluations() if it.check_name == "releasable"]
    assert not check.passed
    assert check.metadata["edges_end_at_symbols: dangling"].value == 1
    (row, *_) = check.metadata["edges_end_at_symbols: rows"].records
    assert (row.data["source_name"], row.data["target_name"]) in {("add", "twice"), ("", "twice")}
    assert _released(workplace) == released


def test_other_types_have_neither_the_asset_nor_its_checks(workplace: Workplace) -> None:
    workplace.declare("docs", "markdown", a_md="# A\n")
    keys = {
        key.to_user_string() for key in workplace.definitions().resolve_asset_graph().get_all_asset_keys()
    }
    assert "markdown/index" in keys
    assert "markdown/graph" not in keys
    names = {
        check.name
        for check in (*list_checks("markdown", blocking=True), *list_checks("markdown", blocking=False))
    }
    assert not names & {"edges_end_at_symbols", "unresolved_share"}


def _released(workplace: Workplace) -> dict[str, int]:
    from knowledge_pipeline.store.release import find_live_release

    found = find_live_release(workplace.lake)
    return dict(found.graph) if found else {}

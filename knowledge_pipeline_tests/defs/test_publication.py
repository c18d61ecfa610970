"""Publishing in Dagster: an asset after the release, and a sensor that follows each release."""

from __future__ import annotations

import runpy
import sys

import dagster as dg
import pytest

from knowledge_pipeline.defs.jobs import PUBLICATION, build_new_release_sensor, build_publication_asset
from knowledge_pipeline.extensions.publish import DSN_VARIABLE
from knowledge_pipeline.stages import pipeline
from knowledge_pipeline.stages.pipeline import roll_back_release
from knowledge_pipeline_tests.defs.conftest import Workplace
from knowledge_pipeline_tests.stages.publish.conftest import Query
from knowledge_pipeline_tests.stages.publish.conftest import dsn as dsn  # fixtures
from knowledge_pipeline_tests.stages.publish.conftest import pgvector_server as pgvector_server
from knowledge_pipeline_tests.stages.publish.conftest import query as query

MODULE = "knowledge_pipeline.definitions"


def tick(
    workplace: Workplace, instance: dg.DagsterInstance, cursor: str | None
) -> dg.SensorResult | dg.SkipReason:
    resources = {"project": workplace.resource}
    with dg.build_sensor_context(instance, cursor=cursor, resources=resources) as context:
        result = build_new_release_sensor(publishes=True)(context)
    assert isinstance(result, dg.SensorResult | dg.SkipReason)
    return result


def test_a_release_is_published_and_its_run_tells_counts_and_no_address(
    workplace: Workplace, instance: dg.DagsterInstance, dsn: str, query: Query
) -> None:
    workplace.declare("shop", a_py="def sign_session(key):\n    return key\n")
    pipeline.refresh(workplace.lake, workplace.settings, workplace.settings.sources)
    asset = build_publication_asset()
    result = dg.materialize(
        [asset], instance=instance, resources={"project": workplace.resource}, selection=[PUBLICATION]
    )
    (event,) = result.get_asset_materialization_events()
    shown = {name: value.value for name, value in event.materialization.metadata.items()}
    rows = query("select count(*) from knowledge.chunks")[0][0]
    assert (shown["release"], shown["rows"], shown["added"]) == (1, rows, rows)
    secret = dsn.partition("@")[0].rpartition(":")[2]
    assert all(secret not in str(each) for each in result.all_events)
    assert all(secret not in entry.message for entry in instance.all_logs(result.run_id) or ())


def test_the_sensor_follows_each_release_whoever_made_it(
    workplace: Workplace, instance: dg.DagsterInstance
) -> None:
    workplace.declare("shop", a_py="def sign_session(key):\n    return key\n")
    assert isinstance(tick(workplace, instance, None), dg.SkipReason)
    pipeline.refresh(workplace.lake, workplace.settings, workplace.settings.sources)
    first = tick(workplace, instance, None)
    assert isinstance(first, dg.SensorResult) and len(first.run_requests or ()) == 1
    assert isinstance(tick(workplace, instance, first.cursor), dg.SkipReason)
    roll_back_release(workplace.lake, workplace.settings, 1)
    second = tick(workplace, instance, first.cursor)
    assert isinstance(second, dg.SensorResult)
    assert (second.run_requests or [None])[0] != (first.run_requests or [None])[0]


@pytest.mark.parametrize("address", ["", "postgresql://reader@127.0.0.1:1/x"])
def test_there_is_an_asset_where_the_environment_names_a_database(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setenv(DSN_VARIABLE, address)
    monkeypatch.setenv("KNOWLEDGE_CONFIG", str(workplace.path))
    workplace.declare("one", "code", a_py="x = 1\n")
    monkeypatch.delitem(sys.modules, MODULE, raising=False)  # of a run that another test launched here
    definitions: dg.Definitions = runpy.run_module(MODULE)["defs"]
    assert (dg.AssetKey(PUBLICATION) in definitions.resolve_all_asset_keys()) == bool(address)
    sensor = definitions.get_repository_def().get_sensor_def("new_release")
    assert [target.job_name for target in sensor.targets] == ([PUBLICATION] if address else [])

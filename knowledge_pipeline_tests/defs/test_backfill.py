"""Backfills by a running daemon: stopped and gone on with, of what is stale alone, and with a failure."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.execution.backfill import BulkActionStatus
from dagster._core.storage.partition_status_cache import AssetPartitionStatus

from knowledge_pipeline.defs.event_log import RELEASE
from knowledge_pipeline.records import build_embedded_text
from knowledge_pipeline.stages import pipeline
from knowledge_pipeline.stages.pipeline import STAGES
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.logs import open_log
from knowledge_pipeline.store.release import find_live_release
from knowledge_pipeline_tests.defs.backfilling import KEYS, Partitions, daemon_of, turn_on
from knowledge_pipeline_tests.defs.conftest import EMBEDDING, Workplace
from knowledge_pipeline_tests.defs.daemon import Daemon
from knowledge_pipeline_tests.defs.test_assets import content
from knowledge_pipeline_tests.fakes.openai_server import OpenAIServer

pytestmark = [
    pytest.mark.slow,
    pytest.mark.storage,
    pytest.mark.waits,
    pytest.mark.timeout(2400),
    pytest.mark.filterwarnings("ignore:Function `AssetSelection.sources`:DeprecationWarning"),  # in Dagster
]

WAIT_S = 1500.0  # for what takes seconds where nothing else runs


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    """An endpoint that a test makes slow, and counts the texts of."""
    with OpenAIServer() as server:
        yield server


@pytest.fixture
def place(tmp_path: Path, server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> Workplace:
    """A project without sources that embeds by it."""
    monkeypatch.setenv("TEST_EMBEDDING_KEY", server.key)
    (tmp_path / "project").mkdir()
    embedding = EMBEDDING.format(url=server.url, dimensions=server.dimensions)
    return Workplace(tmp_path / "project", embedding)


def held(place: Workplace) -> dict[str, set[str]]:
    """The sources of which the tables hold rows, by stage."""
    lake, ids = place.lake, [source.id for source in place.settings.sources]
    spaces = lake.list_spaces().items()
    indexed = {
        id_
        for space, dimensions in spaces
        for id_ in lake.index(space, dimensions).read_rows(["source"])["source"].to_pylist()
    }
    embedded = {
        id_
        for space, dimensions in spaces
        for id_ in ids
        if lake.embeddings(space, id_, dimensions).count_rows()
    }
    return {
        "snapshot": {id_ for id_ in ids if lake.snapshot("code", id_).count_rows()},
        "chunks": {id_ for id_ in ids if lake.chunks("code", id_).count_rows()},
        "embeddings": embedded,
        "index": indexed,
        "graph": set(lake.graph_table("symbols").read_rows(["source"])["source"].to_pylist()),
    }


def released_rows(place: Workplace) -> int:
    release = find_live_release(place.lake)
    return release.rows if release else 0


def function(name: str) -> str:
    return f"def {name}():\n    return {name!r}\n"


def test_a_backfill_that_is_stopped_and_gone_on_with_ends_with_the_index_of_a_plain_refresh(
    place: Workplace, server: OpenAIServer, tmp_path: Path, dagster_home: Path, dagster_yaml: Path
) -> None:
    ids = [f"s{number:03}" for number in range(8)]
    for id_ in ids:
        place.declare(id_, a_py=function(f"f_{id_}"))
    server.wait_s = 1.0  # after some sources there are others left
    with daemon_of(place, dagster_home, dagster_yaml) as daemon:
        shown = Partitions(place, daemon.instance)
        stopped = shown.launch([*KEYS.values(), dg.AssetKey(RELEASE)], ids)
        daemon.until(lambda: len(server.texts) >= 3, "some sources are embedded", WAIT_S)
        server.wait_s = 15.0  # the daemon stops the run before all of it is done, however busy it is
        shown.cancel(stopped)
        daemon.until(lambda: shown.ended(stopped), "the backfill is stopped", WAIT_S)
        assert shown.ended(stopped) == BulkActionStatus.CANCELED
        statuses = {run.status for run in shown.runs(stopped)}
        assert dg.DagsterRunStatus.CANCELED in statuses
        assert statuses <= {
            dg.DagsterRunStatus.CANCELED,
            dg.DagsterRunStatus.SUCCESS,
        }  # the small run, perhaps

        recorded = {
            (stage, id_)
            for stage in STAGES
            for id_ in shown.with_status(stage, AssetPartitionStatus.MATERIALIZED)
        }
        stored = {(stage, id_) for stage, sources in held(place).items() for id_ in sources}
        assert recorded <= stored
        assert len(stored - recorded) <= len(shown.runs(stopped))  # the stage that each was just doing
        left = shown.missing_or_failed()
        assert set(left) == {id_ for id_ in ids if any((stage, id_) not in recorded for stage in STAGES)}
        assert 0 < len(left) < len(ids)

        server.wait_s = 0.0
        rest = shown.launch([*KEYS.values(), dg.AssetKey(RELEASE)], left)
        daemon.until(lambda: shown.ended(rest), "the rest is done", WAIT_S)
        assert shown.ended(rest) == BulkActionStatus.COMPLETED_SUCCESS
        assert shown.missing_or_failed() == []
        assert shown.stale() == {}
        # Only what was on its way when it was stopped is embedded again.
        assert len(server.texts) <= len(ids) + len(shown.runs(stopped))
        assert released_rows(place) == len(ids)
    equals_a_plain_refresh(place, tmp_path)


def module(name: str) -> str:
    """A long function, which a smaller limit cuts, and a short class, which it leaves as it is."""
    lines = "".join(f"    value_{number} = compute_{name}({number})\n" for number in range(60))
    return f"def long_{name}():\n{lines}    return 1\n\n\nclass Short{name.title()}:\n    size = 1\n"


def configure(place: Workplace, ids: Sequence[str], setting: str) -> None:
    """Edit the file: a further setting for some sources."""
    text = place.path.read_text()
    for id_ in ids:
        text = text.replace(f"{{id: {id_}, ", f"{{id: {id_}, {setting}, ")
    place.path.write_text(text)


def texts_of(place: Workplace, ids: Sequence[str]) -> set[str]:
    """What is embedded of some sources."""
    return {
        build_embedded_text(row["header"], row["text"])
        for id_ in ids
        for row in place.lake.chunks("code", id_).read_rows(["header", "text"]).to_pylist()
    }


def refreshed(place: Workplace) -> list[tuple[str, str]]:
    """Every stage that ever ran, with its source."""
    rows = open_log(place.lake, "refreshes").read_rows(["stage", "source"]).to_pylist()
    return [(row["stage"], row["source"]) for row in rows]


@contextmanager
def everything_done(place: Workplace, home: Path, yaml: Path) -> Iterator[tuple[Daemon, Partitions]]:
    """Four sources, all materialized; then nothing can be read any more from where they came from."""
    for id_ in "abcd":
        place.declare(id_, m_py=module(id_))
    with daemon_of(place, home, yaml) as daemon:
        assert place.run(daemon.instance, "refresh").success
        turn_on(daemon.instance, "sources_in_config")  # no source is new to it any more
        shown = Partitions(place, daemon.instance)
        assert shown.stale() == {}
        (place.root / "folders").rename(place.root / "away")
        yield daemon, shown
        (place.root / "away").rename(place.root / "folders")


def materialize_the_stale(daemon: Daemon, shown: Partitions) -> list[dict[str, set[str]]]:
    """As often as something is shown as stale; return what that was, each time."""
    rounds: list[dict[str, set[str]]] = []
    while stale := stale_after_snapshot(shown):
        rounds.append(stale)
        (sources,) = {tuple(sorted(sources)) for sources in stale.values()}
        backfill = shown.launch([KEYS[stage] for stage in stale], sources)
        daemon.until(lambda backfill=backfill: shown.ended(backfill), "the stale is materialized", WAIT_S)
        assert shown.ended(backfill) == BulkActionStatus.COMPLETED_SUCCESS
        assert len(rounds) < len(STAGES), rounds
    return rounds


def stale_after_snapshot(shown: Partitions) -> dict[str, set[str]]:
    """What is stale of the stages that need nothing from where a source came from."""
    return {stage: ids for stage, ids in shown.stale().items() if stage != "snapshot"}


def test_a_backfill_of_what_a_changed_chunker_or_model_made_stale_embeds_that_alone(
    place: Workplace, server: OpenAIServer, tmp_path: Path, dagster_home: Path, dagster_yaml: Path
) -> None:
    with everything_done(place, dagster_home, dagster_yaml) as (daemon, shown):
        a_changed_chunker(place, server, daemon, shown)
        a_changed_model(place, server, daemon, shown)
    equals_a_plain_refresh(place, tmp_path)


def a_changed_chunker(place: Workplace, server: OpenAIServer, daemon: Daemon, shown: Partitions) -> None:
    embedded, ran, before = len(server.texts), refreshed(place), texts_of(place, "bc")
    configure(place, "bc", "chunking: {max_tokens: 64}")
    stages = ("chunks", "embeddings", "graph", "index")
    told = {stage: {"b", "c"} for stage in stages}
    daemon.until(lambda: stale_after_snapshot(shown) == told, "the sensor told the change", WAIT_S)
    assert materialize_the_stale(daemon, shown) == [told]
    assert sorted(refreshed(place)[len(ran) :]) == [(stage, id_) for stage in stages for id_ in "bc"]
    after = texts_of(place, "bc")
    assert len(before & after) == 2
    assert sorted(server.texts[embedded:]) == sorted(after - before)


def a_changed_model(place: Workplace, server: OpenAIServer, daemon: Daemon, shown: Partitions) -> None:
    embedded, asked, ran = len(server.texts), len(server.requests), refreshed(place)
    model = f"provider: openai, model: another, base_url: '{server.url}', dimensions: {server.dimensions}"
    configure(place, "bd", f"embedding: {{{model}, api_key: '${{TEST_EMBEDDING_KEY}}'}}")
    stages = ("chunks", "embeddings", "graph", "index")
    told = {stage: {"b", "d"} for stage in stages}
    daemon.until(lambda: stale_after_snapshot(shown) == told, "the sensor told the change", WAIT_S)
    assert materialize_the_stale(daemon, shown) == [told]
    assert sorted(refreshed(place)[len(ran) :]) == [(stage, id_) for stage in stages for id_ in "bd"]
    assert sorted(server.texts[embedded:]) == sorted(texts_of(place, "bd"))
    assert {request.body["model"] for request in server.requests[asked:]} == {"another"}


def test_a_source_that_fails_in_a_backfill_is_shown_and_cleared_and_the_others_are_released(
    place: Workplace, tmp_path: Path, dagster_home: Path, dagster_yaml: Path
) -> None:
    for id_ in "bcd":
        place.declare(id_, **({} if id_ == "c" else {"m_py": function(id_)}))
    materialized, failed = AssetPartitionStatus.MATERIALIZED, AssetPartitionStatus.FAILED
    with daemon_of(place, dagster_home, dagster_yaml) as daemon:
        shown = Partitions(place, daemon.instance)
        first = shown.launch([*KEYS.values(), dg.AssetKey(RELEASE)], list("bcd"))
        daemon.until(lambda: shown.ended(first), "the backfill ended", WAIT_S)
        assert shown.ended(first) == BulkActionStatus.COMPLETED_FAILED
        for stage in STAGES:
            assert shown.with_status(stage, materialized) == set("bd")
            assert shown.with_status(stage, failed) == {"c"}
        assert shown.missing_or_failed() == ["c"]
        daemon.until(lambda: released_rows(place) == 2, "the others are released", WAIT_S)
        daemon.until(daemon.idle, "its run is over", WAIT_S)

        place.declare("c", m_py=function("c"))
        second = shown.launch([*KEYS.values(), dg.AssetKey(RELEASE)], shown.missing_or_failed())
        daemon.until(lambda: shown.ended(second), "the backfill of what was missing ended", WAIT_S)
        assert shown.ended(second) == BulkActionStatus.COMPLETED_SUCCESS
        assert shown.missing_or_failed() == []
        assert released_rows(place) == 3
    equals_a_plain_refresh(place, tmp_path)


def equals_a_plain_refresh(place: Workplace, root: Path) -> None:
    """The tables hold what a refresh of the files into another store gives."""
    settings = place.settings
    plain = Lake(root / "plain")
    assert not pipeline.refresh(plain, settings, settings.sources).failures
    assert content(place.lake) == content(plain)

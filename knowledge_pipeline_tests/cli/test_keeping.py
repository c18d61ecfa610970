"""`status`, `releases`, `rollback`, `purge`."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from knowledge_pipeline.contract.operation import Refresh
from knowledge_pipeline.serve.refresh_history import RefreshHistory
from knowledge_pipeline.serve.refresh_process import Failure, ProcessOutcome
from knowledge_pipeline.store.local_state import FILE, SharedState
from knowledge_pipeline_tests.cli.conftest import Run, list_imports


def by_source(status: dict) -> dict[str, dict]:
    return {each["source"]: each for each in status["sources"]}


def test_status_counts_what_is_stored_of_each_source(indexed: Path, run: Run):
    status = run("status", "--json").json
    assert status["release"]["release"] == 1
    docs = by_source(status)["shop-docs"]
    assert (docs["documents"], docs["archived"], docs["skipped"], docs["chunks"], docs["rows"]) == (
        1,
        0,
        0,
        1,
        1,
    )
    assert docs["last_change"].startswith("20")
    assert "Release 1 of" in run("status").out


def test_status_without_a_change_opens_no_table_and_says_the_same(indexed: Path, run: Run):
    history = RefreshHistory(Path(run("status", "--json").json["store"]))
    history.record_event(Refresh("1", (), "jira", "queued", datetime.now(UTC)), ["shop-docs"], "jira", "")
    history.close()
    first = run("status", "--json").json
    assert len(first["events"]) == 1
    command = [sys.executable, "-X", "importtime", "-m", "knowledge_pipeline.cli", "status", "--json"]
    again = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path.cwd())
    assert json.loads(again.stdout) == first
    assert {"lance", "pyarrow", "numpy"}.isdisjoint(list_imports(again.stderr))


def test_status_says_which_source_failed_until_it_is_read_again(indexed: Path, shop: Path, run: Run):
    assert run("status", "--json").json["failures"] == []
    shop.rename(shop.with_name("away"))
    run("refresh", "--source", "shop-docs", code=1)
    (failure,) = run("status", "--json").json["failures"]
    assert failure["source"] == "shop-docs" and str(shop) in failure["problem"]
    assert "shop-docs: failed since 20" in run("status").out
    shop.with_name("away").rename(shop)
    run("refresh", "--source", "shop-docs")
    assert run("status", "--json").json["failures"] == []


def test_status_says_what_became_of_the_last_event_of_each_source(indexed: Path, run: Run):
    assert run("status", "--json").json["events"] == []
    history = RefreshHistory(Path(run("status", "--json").json["store"]))
    for source, kind in (("shop-code", "push"), ("shop-docs", "gollum"), ("removed", "push")):
        refresh = Refresh(source, (source,), "github", "queued", datetime.now(UTC))
        history.record_event(refresh, [source], "github", kind)
        failures = {"shop-docs": Failure("it is gone", is_temporary=False)}
        history.end_events(refresh, ProcessOutcome(7, failures), None)
    history.close()
    code, docs = run("status", "--json").json["events"]
    assert docs.pop("at").startswith("20") and code["state"] == "done"
    assert docs == {
        **{"source": "shop-docs", "service": "github", "kind": "gollum"},
        **{"state": "failed", "error": "it is gone"},
    }
    told = run("status").out
    assert "taken in" in told and "failed: it is gone" in told


def test_status_counts_again_what_a_refresh_a_rollback_or_another_source_changed(
    indexed: Path, shop: Path, run: Run
):
    before = run("status", "--json").json
    (shop / "docs" / "other.md").write_text("# Other\n\nText.\n")
    run("refresh")
    after = run("status", "--json").json
    assert by_source(after)["shop-docs"]["documents"] == by_source(before)["shop-docs"]["documents"] + 1
    run("rollback", "1")
    assert run("status", "--json").json["release"]["restores"] == 1
    run("sources", "add", "files", "--path", str(shop / "docs"), "--id", "more")
    assert by_source(run("status", "--json").json).keys() == by_source(after).keys() | {"more"}


def test_status_counts_where_what_it_kept_is_broken_or_cannot_be_kept(indexed: Path, run: Run):
    counted = run("status", "--json").json
    for value in (b"[]", b"no JSON", b'{"mark": 1}'):
        with SharedState(Path(counted["store"])) as state:
            assert not state.put("result", "counts", value)
        assert run("status", "--json").json == counted
    kept = Path(counted["store"]) / FILE
    kept.unlink()
    kept.mkdir()
    assert run("status", "--json").json == counted


def test_detailed_status_adds_disk_versions_spaces_and_skips(indexed: Path, shop: Path, run: Run):
    (shop / "src" / "binary.py").write_bytes(b"\x00\x01\x02" * 50)
    run("refresh")
    status = run("status", "--detailed", "--json").json
    assert status["disk_bytes"] > by_source(status)["shop-code"]["disk_bytes"] > 0
    assert by_source(status)["shop-code"]["skipped_reasons"].keys() != set()
    assert [each["code_graph"] for each in status["code_graph"]] == ["symbols", "edges"]
    (space,) = status["spaces"]
    assert space["rows"] == status["release"]["rows"] and space["dimensions"] == 32
    told = run("status", "--detailed").out
    assert "UNINDEXED" in told and "shop-code: skipped 1: " in told and "The store takes" in told


def test_status_of_an_empty_project_says_what_to_do(home: Path, run: Run):
    told = run("status").out
    assert "knowledge index --repo PATH_OR_URL" in told
    assert run("status", "--json").json["release"] is None
    detailed = run("status", "--detailed", "--json").json
    assert (detailed["spaces"], detailed["code_graph"]) == ([], [])


def test_status_of_a_project_that_was_never_indexed_lists_its_sources(home: Path, repository: Path, run: Run):
    run("sources", "add", "code", "--path", str(repository))
    told = run("status").out
    assert "Nothing is released yet: run `knowledge index`" in told and "shop-code" in told


@pytest.mark.parametrize(
    "command", [["status"], ["refresh"], ["index"], ["search", "x"], ["releases"], ["sources", "list"]]
)
def test_without_a_file_every_command_says_how_to_begin(nowhere: Path, run: Run, command: list[str]):
    assert "knowledge init" in run(*command, code=2).err


def test_releases_are_listed_and_rolled_back_to(indexed: Path, shop: Path, run: Run):
    assert "1  yes" in run("releases").out
    (shop / "docs" / "new.md").write_text("# Brand new\n\nUnheard of walrus.\n")
    run("refresh")
    listed = run("releases", "--json").json["releases"]
    assert [(each["release"], each["live"]) for each in listed] == [(2, True), (1, False)]
    assert "docs/new.md" in run("search", "walrus", "--lines", "0").out
    assert "Release 3 is live: the content of release 1" in run("rollback", "1").out
    assert "docs/new.md" not in run("search", "walrus", "--lines", "0").out
    assert run("rollback", "2", "--json").json["restores"] == 2
    assert "docs/new.md" in run("search", "walrus", "--lines", "0").out


def test_a_rollback_is_pinned_until_someone_unpins_it(indexed: Path, shop: Path, run: Run):
    (shop / "docs" / "new.md").write_text("# Brand new\n\nUnheard of walrus.\n")
    run("refresh")
    assert "It is pinned" in run("rollback", "1").out
    said = run("refresh").out
    assert "Release 3 is pinned (content of release 1, since 20" in said
    assert "is pinned" in run("refresh", "--json").json["release"]["notes"][0]
    assert "Release 3 is pinned (content of release 1, since 20" in run("status").out
    status = run("status", "--json").json["release"]
    assert status["release"] == 3 and status["pinned_since"].startswith("20")
    assert "docs/new.md" not in run("search", "walrus", "--lines", "0").out
    run("releases", "--unpin")
    assert "docs/new.md" in run("search", "walrus", "--lines", "0").out
    assert "is pinned" not in run("status").out + run("refresh").out
    assert "no release is pinned" in run("releases", "--unpin", code=3).err


def test_a_rollback_until_the_next_refresh_is_undone_by_it(indexed: Path, shop: Path, run: Run):
    (shop / "docs" / "new.md").write_text("# Brand new\n\nUnheard of walrus.\n")
    run("refresh")
    run("rollback", "1", "--until-next-refresh")
    assert "is pinned" not in run("status").out
    run("refresh")
    assert "docs/new.md" in run("search", "walrus", "--lines", "0").out


def test_releases_of_an_empty_store_are_none(home: Path, run: Run):
    assert run("releases", "--json").json == {"releases": []}
    assert "Nothing is released yet" in run("releases").out


def test_rollback_to_no_release_is_not_found(indexed: Path, run: Run):
    assert "there is no release 9" in run("rollback", "9", code=3).err


@pytest.mark.parametrize("wrong", [["rollback"], ["rollback", "first"], ["rollback", "0"], ["purge"]])
def test_wrong_arguments_are_wrong_usage(indexed: Path, run: Run, wrong: list[str]):
    run(*wrong, code=2)


def test_purge_erases_one_document(indexed: Path, shop: Path, run: Run):
    erased = run("purge", "--source", "shop-docs", "--uri", "docs/guide.md", "--yes", "--json").json
    assert (erased["source"], erased["documents"]) == ("shop-docs", 1)
    assert {"place": "snapshot/markdown/shop-docs", "rows": 1} in [
        {name: place[name] for name in ("place", "rows")} for place in erased["places"]
    ]
    assert run("purge", "--check", erased["receipt"], "--json").json["found"] == []
    assert "Still gone: what was erased of shop-docs" in run("purge", "--check", erased["receipt"]).out
    run("refresh")
    told = run("purge", "--check", erased["receipt"], code=1).out
    assert "Found again" in told and "snapshot/markdown/shop-docs" in told
    run("purge", "--source", "shop-docs", "--uri", "docs/guide.md", "--yes")
    assert run("search", "retries", "--source", "shop-docs", "--json").json["results"] == []


@pytest.mark.slow
def test_purge_erases_what_the_source_no_longer_has(indexed: Path, shop: Path, run: Run):
    (shop / "docs" / "other.md").write_text("# Other\n\nText.\n")
    (shop / "docs" / "guide.md").unlink()
    run("refresh")
    archived = ("search", "sessions signed", "--source", "shop-docs", "--include-archived", "--json")
    assert len(run(*archived).json["results"]) == 2
    assert (
        "Erased 1 document of shop-docs" in run("purge", "--source", "shop-docs", "--archived", "--yes").out
    )
    assert len(run(*archived).json["results"]) == 1


def test_purge_asks_or_refuses(indexed: Path, run: Run):
    assert "--yes" in run("purge", "--source", "shop-docs", code=2).err
    assert "not both" in run("purge", "--source", "s", "--uri", "u", "--archived", "--yes", code=2).err
    assert "give --source, or --check" in run("purge", code=2).err
    assert "there is no receipt 'nope'; stored: none" in run("purge", "--check", "nope", code=3).err
    assert "nope" in run("purge", "--source", "nope", "--yes", code=3).err
    assert "no/such" in run("purge", "--source", "shop-docs", "--uri", "no/such", "--yes", code=3).err
    assert run("status", "--json").json["release"]["release"] == 1


def test_what_contacts_nobody_needs_no_secret(indexed: Path, run: Run, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("EMBEDDING_KEY")
    run("refresh")  # changes nothing, so that no endpoint is asked
    (indexed.parent / "shop" / "docs" / "new.md").write_text("# New\n\nText.\n")
    settings = "embedding.api_key: the environment variable EMBEDDING_KEY is not set: set it"
    assert settings in run("doctor", code=1).out and settings in run("refresh", code=1).err
    found = run("search", "sessions signed")
    assert found.out and "searched by words alone" in found.err
    assert settings in run("search", "sessions signed", "--explain").err
    told = run("search", "sessions signed", "--mode", "words").err
    assert told.startswith("note: `shop-docs` cannot be refreshed since ") and told.count("\n") == 1
    assert run("status", "--detailed", "--json").json["release"]["release"] == 1
    assert len(run("sources", "list", "--json").json["sources"]) == 3
    assert run("releases", "--json").json["releases"] and run("rollback", "1").out
    assert "Erased 2 documents" in run("purge", "--source", "shop-docs", "--yes").out
    run("sources", "add", "markdown", "--path", str(indexed))
    run("sources", "remove", "shop-code", "--yes")


def test_a_store_whose_place_is_not_known_is_no_empty_store(indexed: Path, run: Run):
    config = indexed / "knowledge.yaml"
    config.write_text(config.read_text().replace("store: .knowledge", "store: ${NO_SUCH_FOLDER}"))
    assert "NO_SUCH_FOLDER is not set" in run("status", code=2).err

"""Stores of every earlier schema, written by the programs of their time, become stores of this one."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from knowledge_pipeline import KnowledgeBase, maintenance
from knowledge_pipeline.cli.app import app
from knowledge_pipeline.config.file import load_settings
from knowledge_pipeline.errors import KnowledgeError, NotFound, StoreError
from knowledge_pipeline.maintenance import purge_documents
from knowledge_pipeline.store import migrate
from knowledge_pipeline.store import migrate as table_versions
from knowledge_pipeline.store.filters import is_null
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.lance_storage import open_dataset
from knowledge_pipeline.store.migrate import STEPS
from knowledge_pipeline.store.release import list_releases
from knowledge_pipeline.store.schemas import VERSION
from knowledge_pipeline_tests.fakes.bucket.s3_server import S3Bucket
from knowledge_pipeline_tests.fakes.bucket.store import store_in
from knowledge_pipeline_tests.fakes.openai_server import OpenAIServer
from knowledge_pipeline_tests.store.migration.conftest import STORES, OpenStore, unpack
from knowledge_pipeline_tests.thoroughness import stride

EARLIER = sorted(STEPS)
OLDEST_TAKES_ALL_STEPS = [EARLIER[0], *(pytest.param(each, marks=pytest.mark.slow) for each in EARLIER[1:])]
SPACE = "hashed-words-7e5b8754"
ROTATION, COINS = "who rotates the session signing key", "coins are counted by the quartermaster"


def run(*arguments: str, code: int = 0) -> str:
    """Run the command line in the current folder; what it printed, notes and errors too."""
    result = CliRunner().invoke(app, list(arguments), prog_name="knowledge")
    assert result.exit_code == code, result.output
    return result.output


def content(lake: Lake) -> dict[str, list[dict[str, Any]]]:
    """All rows of every table as it is now, and of every version that a release names, in a fixed order.

    Versions differ from one migration to the next, so a release is seen through the rows that it names.
    """
    found: dict[str, list[dict[str, Any]]] = {}
    for each in migrate.read_versions(lake).tables:
        rows = open_dataset(each.table.path).to_table().to_pylist()
        found[each.name] = [row | ({"tables": None} if each.kind == "releases" else {}) for row in rows]
    for release in list_releases(lake):
        for space, version in release.tables.items():
            table = lake.index(space, lake.list_spaces()[space])
            found[f"{release.release}/{space}"] = table.read_rows(
                table.schema.names, version=version
            ).to_pylist()
        for name, version in release.graph.items():
            table = lake.graph_table(name)
            found[f"{release.release}/{name}"] = table.read_rows(
                table.schema.names, version=version
            ).to_pylist()
    return {name: sorted(rows, key=repr) for name, rows in found.items()}


def raw_content(lake: Lake) -> dict[str, tuple[str, list[dict[str, Any]]]]:
    """The schema's version, the columns and the rows of every table as it is now, whatever wrote it."""
    found: dict[str, tuple[str, list[dict[str, Any]]]] = {}
    for each in migrate.read_versions(lake).tables:
        rows = open_dataset(each.table.path).to_table().to_pylist()
        found[each.name] = each.version, sorted(rows, key=repr)
    return found


def test_every_earlier_version_has_its_steps_and_every_version_its_store() -> None:
    versions = [str(number) for number in range(1, int(VERSION) + 1)]
    assert [*EARLIER, VERSION] == versions
    assert sorted(path.name for path in STORES.glob("*.tar.xz")) == [f"v{each}.tar.xz" for each in versions]


def without_cut(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows without what changes as soon as a later program cuts differently, whether or not it is seen."""
    return [{name: value for name, value in row.items() if name != "fingerprint"} for row in rows]


def test_a_store_of_today_is_read_searched_refreshed_and_rolled_back(
    open_store: OpenStore, endpoint: OpenAIServer
) -> None:
    lake = open_store(VERSION)
    assert "nothing to migrate" in run("migrate")
    assert "keys.md" in run("search", ROTATION)
    once = content(lake)
    run("refresh")
    now = content(lake)
    assert now.keys() == once.keys()
    changed = {name for name, rows in once.items() if without_cut(rows) != without_cut(now[name])}
    assert {name.partition("/")[0] for name in changed} <= {  # times of files were unpacked
        "snapshot",
        "logs",
        "releases.lance",
    }
    assert endpoint.texts == [ROTATION]
    run("rollback", "1")
    assert "cash.md" in run("search", COINS)
    (archived,) = lake.snapshot("markdown", "docs").read_rows(["text"], ~is_null("archived_at")).to_pylist()
    assert "quartermaster" in archived["text"]


@pytest.mark.parametrize("version", EARLIER)
def test_an_earlier_store_is_refused_in_one_sentence_until_it_is_migrated(
    open_store: OpenStore, version: str
) -> None:
    open_store(version)
    for command in (("search", "keys"), ("refresh",), ("status",)):
        (line,) = [each for each in run(*command, code=1).splitlines() if each.startswith("error")]
        assert f"was written with schema version {version}" in line
        assert "run `knowledge migrate`" in line


@pytest.mark.parametrize("version", OLDEST_TAKES_ALL_STEPS)
def test_a_migrated_store_has_everything_and_embeds_nothing_again(
    open_store: OpenStore, endpoint: OpenAIServer, version: str
) -> None:
    lake = open_store(version)
    before = {name: rows for name, (_, rows) in raw_content(lake).items()}
    assert f"from schema version {version}" in run("migrate")
    after = content(lake)
    for name, rows in before.items():
        if name != "releases.lance":
            columns = set(rows[0]) & set(after[name][0]) if rows else set()
            kept = [{column: row[column] for column in sorted(columns)} for row in after[name]]
            had = [{column: row[column] for column in sorted(columns)} for row in rows]
            assert sorted(kept, key=repr) == sorted(had, key=repr)
    run("refresh")
    assert endpoint.texts == []
    assert "keys.md" in run("search", ROTATION)
    assert "quartermaster" not in run("search", COINS)
    run("rollback", "1")
    assert "quartermaster" in run("search", COINS)
    assert "there is nothing to migrate" not in run("migrate", "--dry-run")


@pytest.mark.parametrize("version", OLDEST_TAKES_ALL_STEPS)
def test_undo_returns_to_the_store_from_before_and_keeps_what_was_logged(
    open_store: OpenStore, endpoint: OpenAIServer, version: str
) -> None:
    lake = open_store(version)
    before = raw_content(lake)
    run("migrate")
    run("refresh")
    run("search", ROTATION)
    assert "before the migration again" in run("migrate", "--undo")
    after = raw_content(lake)
    assert after.keys() >= before.keys()
    for name, (written_by, rows) in before.items():
        if name.startswith("logs/"):
            continue
        assert after[name] == (written_by, rows), name
    asked = before["logs/queries.lance"]
    kept = after["logs/queries.lance"]
    assert kept[0] == version
    assert len(kept[1]) == len(asked[1]) + 1
    assert set(kept[1][0]) == set(asked[1][0])
    run("migrate")
    assert len(content(lake)["logs/queries.lance"]) == len(asked[1]) + 1


def test_after_a_commit_there_is_no_way_back_and_maintenance_frees_the_space(
    open_store: OpenStore, endpoint: OpenAIServer
) -> None:
    lake = open_store("1")
    run("migrate")
    assert "is final" in run("migrate", "--commit")
    assert "no migration to undo" in run("migrate", "--undo", code=3)
    once = content(lake)
    run("maintain", "--grace", "0")  # releases the rewritten index once more
    after = content(lake)
    assert {name: after[name] for name in once if name != "releases.lance"} == {
        name: rows for name, rows in once.items() if name != "releases.lance"
    }
    (index,) = (lake.root / "index").glob("*.lance")
    assert min(each["version"] for each in open_dataset(index).versions()) > 9  # of the old program
    run("rollback", "1")
    assert "quartermaster" in run("search", COINS)


def test_a_store_of_a_newer_program_is_refused_and_left_as_it_is(open_store: OpenStore) -> None:
    lake = open_store(VERSION)
    for each in migrate.read_versions(lake).tables:
        table_versions.set_version(each.table.path, "99")
    before = sorted(path for path in lake.folder.rglob("*.manifest"))
    for command in (("search", "keys"), ("migrate",), ("migrate", "--dry-run"), ("migrate", "--undo")):
        (line,) = [each for each in run(*command, code=1).splitlines() if each.startswith("error")]
        assert "schema version 99" in line
        assert "use a newer knowledge_pipeline" in line
    assert sorted(path for path in lake.folder.rglob("*.manifest")) == before


def test_what_is_purged_is_not_kept_for_the_way_back(open_store: OpenStore, endpoint: OpenAIServer) -> None:
    lake = open_store("1")
    run("migrate")
    settings = load_settings(Path("knowledge.yaml"))
    assert purge_documents(lake, settings, "docs") == 1  # the archived one
    with pytest.raises(KnowledgeError, match="no migration to undo"):
        migrate.undo_migration(lake)
    stored = b"".join(path.read_bytes() for path in lake.folder.rglob("*") if path.is_file())
    assert b"quartermaster" not in stored


def test_what_a_purge_erases_meanwhile_is_passed_over(
    open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, migrations = open_store(VERSION), []
    erase = maintenance._erase_location

    def erase_when_a_migration_waits(*arguments: Any) -> None:
        command = [sys.executable, "-m", "knowledge_pipeline.cli", "migrate"]
        migration = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        migrations.append((migration, next(line for line in migration.stdout or () if "waiting" in line)))
        erase(*arguments)

    monkeypatch.setattr(maintenance, "_erase_location", erase_when_a_migration_waits)
    maintenance.purge_source(lake, load_settings(Path("knowledge.yaml")), "docs")
    ((migration, waited),) = migrations
    printed, _ = migration.communicate()
    assert "source 'docs'" in waited
    assert (migration.returncode, "nothing to migrate" in printed) == (0, True), printed
    assert not [table.name for table in migrate.read_versions(lake).tables if "docs" in table.name]


class Killed(BaseException):
    """A kill: no code of the program sees it."""


def kill_at(commit: int, patched: pytest.MonkeyPatch, *, after: bool = False) -> list[int]:
    """Let the n-th change of a table be the last; how many there were."""
    count, undisturbed = [0], table_versions._commit

    def disturbed(path: Any, write: Any) -> None:
        count[0] += 1
        if count[0] != commit:
            return undisturbed(path, write)
        if after:
            undisturbed(path, write)
        raise Killed

    patched.setattr(table_versions, "_commit", disturbed)
    return count


def copy_store(lake: Lake, folder: Path) -> Lake:
    return Lake(shutil.copytree(lake.folder, folder))


def count_commits(change: Callable[[Lake], Any], lake: Lake) -> int:
    """How many changes of tables a migration or an undo takes; the store is the changed one then."""
    with pytest.MonkeyPatch.context() as patched:
        count = kill_at(0, patched)
        change(lake)
    return count[0]


FEW, MANY = 28, 7  # of so many commits, one is the last


@pytest.mark.parametrize(("version", "step"), [("1", FEW), pytest.param("3", MANY, marks=pytest.mark.slow)])
def test_a_migration_that_is_killed_at_any_commit_ends_as_an_undisturbed_one(
    tmp_path: Path, version: str, step: int
) -> None:
    earlier = unpack(version, tmp_path / "earlier")
    undisturbed = copy_store(earlier, tmp_path / "calm")
    commits = count_commits(migrate.migrate, undisturbed)
    wanted = content(undisturbed)
    for commit in range(1, commits + 1, step):
        lake = copy_store(earlier, tmp_path / f"{commit}")
        with pytest.MonkeyPatch.context() as patched:
            kill_at(commit, patched, after=commit % 2 == 0)
            with pytest.raises(Killed):
                migrate.migrate(lake)
        migrate.migrate(lake)
        assert content(lake) == wanted, commit
        assert migrate.read_versions(lake).state == "migrated"
        assert migrate.migrate(lake) == []
        shutil.rmtree(tmp_path / f"{commit}")


def test_an_undo_that_is_killed_at_any_commit_is_completed_or_migrated_again(tmp_path: Path) -> None:
    migrated = unpack("3", tmp_path / "migrated")
    before = raw_content(migrated)
    migrate.migrate(migrated)
    wanted = content(migrated)
    commits = count_commits(migrate.undo_migration, copy_store(migrated, tmp_path / "counted"))
    for commit in range(1, commits + 1, stride(FEW, all_of=MANY)):
        lake = copy_store(migrated, tmp_path / f"{commit}")
        with pytest.MonkeyPatch.context() as patched:
            kill_at(commit, patched)
            with pytest.raises(Killed):
                migrate.undo_migration(lake)
        again = copy_store(lake, tmp_path / f"{commit}b")
        with suppress(NotFound):  # where the kill came after all but the last tags
            migrate.undo_migration(lake)
        assert raw_content(lake) == before, commit
        migrate.migrate(again)
        assert content(again) == wanted, commit
        shutil.rmtree(lake.folder)
        shutil.rmtree(again.folder)


@pytest.mark.parametrize("version", EARLIER)
def test_a_step_gives_a_row_the_same_columns_whenever_it_runs(tmp_path: Path, version: str) -> None:
    lake = unpack(version, tmp_path)
    for each in migrate.read_versions(lake).tables:
        rows = open_dataset(each.table.path).to_table().to_pylist()
        for step in (steps[each.kind] for steps in STEPS.values() if each.kind in steps):
            for row in rows:
                columns = step.build(row)
                assert tuple(columns) == step.columns
                assert step.build(row | columns) == columns


def test_half_a_migration_cannot_be_committed(tmp_path: Path) -> None:
    lake = unpack("1", tmp_path)
    with pytest.MonkeyPatch.context() as patched:
        kill_at(30, patched)
        with pytest.raises(Killed):
            migrate.migrate(lake)
    with pytest.raises(StoreError, match="not complete: run `knowledge migrate` first"):
        migrate.commit_migration(lake)


def test_a_migrated_store_answers_by_python(open_store: OpenStore, endpoint: OpenAIServer) -> None:
    migrate.migrate(open_store("2"))
    with KnowledgeBase.open(".") as knowledge:
        assert knowledge.search(ROTATION).results


@pytest.mark.slow
def test_a_store_in_a_bucket_is_migrated_as_one_in_a_folder(s3: S3Bucket, tmp_path: Path) -> None:
    local = unpack("2", tmp_path / "local")
    for path in sorted(path for path in local.folder.rglob("*") if path.is_file()):
        s3.create(f"team/knowledge/{path.relative_to(local.folder).as_posix()}", path.read_bytes())
    remote = Lake(store_in(s3, tmp_path / "here"))
    assert migrate.migrate(remote) == migrate.migrate(local)
    migrate.undo_migration(remote)
    assert migrate.read_versions(remote).state == "older"
    migrate.migrate(remote)
    assert migrate.commit_migration(remote)
    assert content(remote) == content(local)

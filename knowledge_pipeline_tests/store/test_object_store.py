"""Tables in a bucket: the same rows as in a folder, whatever happens to a source."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import SecretStr

from knowledge_pipeline import maintenance as maintain
from knowledge_pipeline import maintenance as purge
from knowledge_pipeline.config.store import ObjectStore
from knowledge_pipeline.errors import KnowledgeError, NotFound, StoreError, StoreUnavailable
from knowledge_pipeline.knowledge_base import KnowledgeBase
from knowledge_pipeline.maintenance import MaintenanceOptions
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.stages.pipeline import roll_back_release
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.lance_storage import compute_size
from knowledge_pipeline.store.object_store import ObjectPath, open_client
from knowledge_pipeline.store.release import find_live_release
from knowledge_pipeline_tests.conftest import Project, tables
from knowledge_pipeline_tests.fakes.bucket.azure_server import AzureServer
from knowledge_pipeline_tests.fakes.bucket.s3_server import Fault, S3Bucket
from knowledge_pipeline_tests.fakes.bucket.store import RemoteProject, store_in


def written(folder: Path) -> Path:
    (folder / "docs").mkdir(parents=True)
    (folder / "docs" / "a.md").write_text("# Storage\n\nLance keeps the tables.\n")
    (folder / "docs" / "b.md").write_text("# Harbour\n\nBoats lie in the harbour.\n")
    (folder / "code").mkdir()
    (folder / "code" / "m.py").write_text("def f():\n    return g()\n\n\ndef g():\n    return 1\n")
    return folder


def declared(project: Project, folder: Path) -> None:
    project.declare("docs", "markdown", folder / "docs")
    project.declare("code", "code", folder / "code")


def edited(folder: Path) -> None:
    (folder / "docs" / "a.md").write_text("# Storage\n\nLance keeps the tables and their versions.\n")
    (folder / "docs" / "b.md").unlink()
    (folder / "code" / "n.py").write_text("from m import f\n\n\ndef h():\n    return f()\n")


@pytest.mark.parametrize("name", ["s3_project", "azure_project"])
def test_a_search_finds_what_was_indexed_in_a_bucket(
    name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    project: RemoteProject = request.getfixturevalue(name)
    project.declare("docs", "markdown", written(tmp_path / "read") / "docs")
    project.refresh()
    with KnowledgeBase.open(project.settings, access=Access.operator()) as base:
        assert base.search("boats in the harbour").results[0].citation.path == "b.md"
        assert {part.status for part in base.health().values()} <= {"ok", "disabled"}
    assert not list(tmp_path.glob("here/**/*.lance"))


@pytest.mark.slow
def test_a_bucket_holds_what_a_folder_holds(
    project: Project, s3_project: RemoteProject, tmp_path: Path
) -> None:
    folder = written(tmp_path / "read")
    both = (project, s3_project)
    for each in both:
        declared(each, folder)
        each.refresh()
    assert tables(s3_project) == tables(project) != {}
    first = find_live_release(s3_project.lake)
    assert not any(stats.has_changes for stats in s3_project.refresh().stats)
    assert find_live_release(s3_project.lake) == first

    edited(folder)
    for each in both:
        each.refresh()
    assert tables(s3_project) == tables(project)
    assert s3_project.lake.list_stored_sources() == {"docs": "markdown", "code": "code"}

    with KnowledgeBase.open(s3_project.settings, access=Access.operator()) as base:
        assert base.search("versions of the tables").results[0].citation.path == "a.md"
    roll_back_release(s3_project.lake, s3_project.settings, 1)
    with KnowledgeBase.open(s3_project.settings, access=Access.operator()) as base:
        assert base.search("boats in the harbour").results[0].citation.path == "b.md"


@pytest.mark.slow
def test_maintenance_and_purge_leave_a_bucket_as_they_leave_a_folder(
    project: Project, s3_project: RemoteProject, tmp_path: Path
) -> None:
    folder = written(tmp_path / "read")
    both = (project, s3_project)
    for each in both:
        declared(each, folder)
        each.refresh()
    edited(folder)
    for each in both:
        each.refresh()
    before = compute_size(s3_project.lake.root)
    asked = MaintenanceOptions(grace_s=0.0)
    done = [maintain.refresh(each.lake, each.settings, options=asked) for each in both]
    here, there = ({action: each.removed for action, each in one.actions.items()} for one in done)
    assert there.pop("versions") >= here.pop(
        "versions"
    )  # a folder's log of events is a file of lines at first
    assert there == here
    assert done[1].skipped == {}
    assert 0 < compute_size(s3_project.lake.root) < before
    assert tables(s3_project) == tables(project)
    for each in both:
        assert purge.purge_source(each.lake, each.settings, "docs") == 2
    assert tables(s3_project) == tables(project) != {}
    with pytest.raises(NotFound, match="nothing of a source 'docs'"):
        purge.purge_source(s3_project.lake, s3_project.settings, "docs")
    assert "docs" not in s3_project.lake.list_stored_sources()


def test_a_store_that_cannot_be_used_is_told_in_a_sentence(s3: S3Bucket, tmp_path: Path) -> None:
    right = store_in(s3, tmp_path)
    secret = SecretStr("wrong" * 5)
    wrong = right.options.model_copy(update={"secret_access_key": secret})
    with pytest.raises(StoreError) as refused:
        Lake(right.model_copy(update={"options": wrong})).list_stored_sources()
    assert str(refused.value) == (
        f"the object store refuses access to {right.url}: check the keys, what they may do, "
        "store_options.region, and store_options.server_side_encryption if the bucket requires one"
    )
    absent = right.model_copy(update={"url": "s3://absent-bucket/x"})
    for ask in (Lake(absent).list_stored_sources, Lake(absent).lock_source("docs").__enter__):
        with pytest.raises(StoreError, match=r"^there is no bucket 'absent-bucket' for s3://absent-bucket/x"):
            ask()


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        (
            "AZURE_STORAGE_ACCOUNT_KEY",
            "b3RoZXI=",
            r"refuses access to .*: check the keys, .*Storage Blob Data",
        ),
        (
            "AZURE_STORAGE_ACCOUNT_KEY",
            None,
            r"there are no credentials for .*: set AZURE_STORAGE_ACCOUNT_NAME",
        ),
        ("AZURE_STORAGE_ACCOUNT_NAME", None, r"cannot be set up .*: correct AZURE_STORAGE_ACCOUNT_NAME"),
    ],
)
def test_a_store_at_azure_that_cannot_be_used_names_the_variables(
    azure_store: ObjectStore, monkeypatch: pytest.MonkeyPatch, variable: str, value: str | None, said: str
) -> None:
    monkeypatch.delenv(variable)
    if value:
        monkeypatch.setenv(variable, value)
    with pytest.raises(KnowledgeError, match=said):
        Lake(azure_store).list_stored_sources()


def test_what_another_process_removes_meanwhile_is_removed_at_azure(
    azure_store: ObjectStore, azure_server: AzureServer
) -> None:
    table, client = ObjectPath("x.lance", azure_store), open_client(azure_store)
    for name in ("_versions/1", "_versions/2", "data/1", "data/2"):
        client.put(f"x.lance/{name}", b"x", use_multipart=False)

    def take() -> None:
        azure_server.before_batch = None
        azure_server.delete("team/knowledge/x.lance/_versions/2")

    azure_server.before_batch = take
    table.remove()
    assert not table.is_dir()


def test_a_store_that_fails_for_a_moment_is_asked_again(s3: S3Bucket, tmp_path: Path) -> None:
    lake = Lake(store_in(s3, tmp_path))
    s3.fail_next(Fault(503), Fault(500, "InternalError"))
    assert lake.list_stored_sources() == {}
    away = lake.root.store.options.model_copy(update={"endpoint_url": "http://127.0.0.1:9"})
    with pytest.raises(StoreUnavailable, match=f"the object store of s3://{s3.name}/team/knowledge did not"):
        Lake(lake.root.store.model_copy(update={"options": away})).list_stored_sources()

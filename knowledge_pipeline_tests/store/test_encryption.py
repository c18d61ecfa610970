"""A bucket that requires encryption by one key: everything is uploaded with it, and nothing without."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from knowledge_pipeline import maintenance as maintain
from knowledge_pipeline import maintenance as purge
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.errors import ConfigError, StoreError
from knowledge_pipeline.knowledge_base import KnowledgeBase
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.stages.pipeline import roll_back_release
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline_tests.cli.conftest import Run
from knowledge_pipeline_tests.cli.conftest import run as run  # a fixture
from knowledge_pipeline_tests.fakes.bucket.s3_server import REGION, S3Bucket
from knowledge_pipeline_tests.fakes.bucket.store import RemoteProject
from knowledge_pipeline_tests.fakes.openai_server import OpenAIServer

KEY = "arn:aws:kms:us-east-1:123456789012:key/11111111-2222-3333-4444-555555555555"
ENCRYPTED = {"server_side_encryption": "aws:kms", "sse_kms_key_id": KEY, "sse_bucket_key": True}


@pytest.fixture
def strict(s3: S3Bucket) -> S3Bucket:
    """A bucket that takes no object without the key."""
    s3.server.required_keys[s3.name] = KEY
    return s3


def list_objects(bucket: S3Bucket) -> list[str]:
    return [each["Key"] for each in bucket.operator.list_objects_v2(Bucket=bucket.name).get("Contents", ())]


def configure(project: RemoteProject, **options: Any) -> None:
    """Give the store these options beside its keys."""
    given = project.store.options.model_dump(exclude_none=True) | options
    store = project.store.model_copy(update={"options": type(project.store.options).model_validate(given)})
    project.store, project.lake = store, Lake(store)


@pytest.fixture
def declared(s3_project: RemoteProject, tmp_path: Path) -> RemoteProject:
    folder = tmp_path / "read"
    folder.mkdir()
    (folder / "a.md").write_text("# Harbour\n\nBoats lie in the harbour.\n")
    s3_project.declare("docs", "markdown", folder)
    return s3_project


def test_every_object_is_encrypted_by_the_key(
    strict: S3Bucket, declared: RemoteProject, tmp_path: Path
) -> None:
    configure(declared, **ENCRYPTED)
    assert declared.refresh().failures == {}
    (tmp_path / "read" / "b.md").write_text("# Storage\n\nLance keeps the tables.\n")
    assert declared.refresh().failures == {}
    roll_back_release(declared.lake, declared.settings, 1)
    assert maintain.refresh(declared.lake, declared.settings).skipped == {}
    with KnowledgeBase.open(declared.settings, access=Access.operator()) as base:
        assert base.search("boats in the harbour").results[0].citation.path == "a.md"
    assert purge.purge_documents(declared.lake, declared.settings, "docs", uri="b.md") == 1
    objects = list_objects(strict)
    assert len(objects) > 20
    for key in objects:
        head = strict.operator.head_object(Bucket=strict.name, Key=key)
        assert (head["ServerSideEncryption"], head["SSEKMSKeyId"]) == ("aws:kms", KEY), key
    uploads = [each for each in strict.requests if "x_amz_server_side_encryption" in each.headers]
    assert {each.headers["x_amz_server_side_encryption_bucket_key_enabled"] for each in uploads} == {"true"}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"server_side_encryption": "AES256"},
        {"server_side_encryption": "aws:kms"},
        {"server_side_encryption": "aws:kms", "sse_kms_key_id": KEY.replace("1111", "9999")},
    ],
    ids=["none", "another kind", "no key", "another key"],
)
def test_without_the_key_nothing_is_written_and_the_sentence_names_the_option(
    strict: S3Bucket, declared: RemoteProject, options: dict[str, Any]
) -> None:
    configure(declared, **options)
    with pytest.raises(StoreError) as refused:
        raise declared.refresh().failures["docs"]
    assert "store_options.server_side_encryption if the bucket requires one" in str(refused.value)
    assert list_objects(strict) == []


def test_a_large_table_is_uploaded_in_parts_with_the_key(
    strict: S3Bucket, declared: RemoteProject, tmp_path: Path
) -> None:
    configure(declared, **ENCRYPTED)
    words = (f"boat {number} lies at the pier of {number * 7919} harbours" for number in range(120_000))
    (tmp_path / "read" / "large.md").write_text("# Large\n\n" + "\n".join(words))
    table = declared.lake.snapshot("markdown", "large")
    import pyarrow as pa

    row = dict.fromkeys(table.schema.names) | {"text": (tmp_path / "read" / "large.md").read_text()}
    row |= dict.fromkeys(("uri", "revision", "content_hash", "path", "metadata"), "x")
    table.append(pa.Table.from_pylist([row], schema=table.schema).to_batches())
    begun = [each for each in strict.requests if each.method == "POST" and "uploads" in each.query]
    assert begun
    assert all(each.headers["x_amz_server_side_encryption_aws_kms_key_id"] == KEY for each in begun)
    assert table.read_rows(["text"]).to_pylist() == [{"text": row["text"]}]


def test_the_options_are_read_from_the_file_by_the_command_line(
    strict: S3Bucket,
    tmp_path: Path,
    embedding_server: OpenAIServer,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "read").mkdir()
    (tmp_path / "read" / "a.md").write_text("# Harbour\n\nBoats lie in the harbour.\n")
    key, secret = strict.server.reader
    file = f"""version: 1
store: s3://{strict.name}/knowledge
store_options:
  endpoint_url: {strict.server.url}
  region: {REGION}
  access_key_id: ${{BUCKET_KEY}}
  secret_access_key: ${{BUCKET_SECRET}}
ENCRYPTION
embedding:
  provider: openai
  model: hashed-words
  base_url: {embedding_server.url}
  api_key: ${{EMBEDDING_KEY}}
  dimensions: {embedding_server.dimensions}
sources:
  - {{id: docs, type: markdown, connection: {{type: local, path: read}}}}
"""
    monkeypatch.setenv("BUCKET_KEY", key)
    monkeypatch.setenv("BUCKET_SECRET", secret)
    monkeypatch.setenv("EMBEDDING_KEY", embedding_server.key)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "knowledge.yaml").write_text(file.replace("ENCRYPTION\n", ""))
    refused = run("index", code=1)
    assert "store_options.server_side_encryption" in refused.err
    assert secret not in refused.out + refused.err
    encryption = f"  server_side_encryption: aws:kms\n  sse_kms_key_id: {KEY}\n"
    (tmp_path / "knowledge.yaml").write_text(file.replace("ENCRYPTION\n", encryption))
    run("index")
    assert "a.md" in run("search", "boats in the harbour").out


@pytest.mark.parametrize(
    "options", [{"sse_kms_key_id": KEY}, {"server_side_encryption": "AES256", "sse_bucket_key": True}]
)
def test_a_key_without_kms_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises((ValueError, ConfigError), match="belong to server_side_encryption: aws:kms"):
        Settings.model_validate({"store": "s3://bucket/x", "store_options": options})

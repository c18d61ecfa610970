"""Machines of one store in a bucket share the listings of organisations."""

import logging
from pathlib import Path

import pytest

from knowledge_pipeline.config.file import load_settings
from knowledge_pipeline.config.organisations import LISTINGS
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.stages.organisations import discover, select_organisations
from knowledge_pipeline.store.listings import ListingRefresh, fetch_listings, load_shared_settings
from knowledge_pipeline_tests.fakes.bucket.s3_server import REGION, Fault, S3Bucket


def write(folder: Path, bucket: S3Bucket, checkouts: Path) -> Path:
    """The file of one machine, with a folder of its own."""
    folder.mkdir()
    keys = "access_key_id: '${STORE_KEY}', secret_access_key: '${STORE_SECRET}'"
    path = folder / "knowledge.yaml"
    path.write_text(f"""\
store: s3://{bucket.name}/shared
store_options: {{endpoint_url: "{bucket.server.url}", region: {REGION}, {keys}}}
organisations:
- {{id: mine, connection: {{type: checkouts, path: "{checkouts}"}}, sources: [{{type: code}}]}}
""")
    return path


def ids(settings: Settings) -> list[str]:
    return [source.id for source in settings.sources]


def test_what_one_machine_discovers_the_others_know(
    tmp_path: Path, s3: S3Bucket, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    connection = s3.connection
    assert connection.access_key_id and connection.secret_access_key
    monkeypatch.setenv("STORE_KEY", connection.access_key_id.get_secret_value())
    monkeypatch.setenv("STORE_SECRET", connection.secret_access_key.get_secret_value())
    for name in ("api", "web"):
        (tmp_path / "git" / name / ".git").mkdir(parents=True)
    one, two = (write(tmp_path / name, s3, tmp_path / "git") for name in ("one", "two"))
    assert load_shared_settings(two).unlisted_organisations == ("mine",)
    settings = load_settings(one)
    assert discover(settings, *select_organisations(settings)).problem == ""
    ListingRefresh().fetch_if_due(load_settings(two))  # once a minute
    assert load_settings(two).unlisted_organisations == ("mine",)
    fetch_listings(load_settings(two))
    assert ids(load_settings(two)) == ids(load_settings(one)) == ["mine-api-code", "mine-web-code"]

    s3.server.faults.extend([Fault(status=403)] * 9)
    with caplog.at_level(logging.WARNING):
        fetch_listings(load_settings(two))
    assert "those known before" in caplog.text and len(ids(load_settings(two))) == 2
    assert not list((tmp_path / "two" / ".knowledge" / LISTINGS).glob(".*"))

"""Sources, refreshes, webhooks, health and what there is, over HTTP."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import shutil
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from knowledge_pipeline import KnowledgeBase
from knowledge_pipeline.config import file
from knowledge_pipeline.config.operation import WebhookSettings
from knowledge_pipeline.config.problems import list_models
from knowledge_pipeline.config.sources import SourceConfig
from knowledge_pipeline.connectors.git.command import run_git
from knowledge_pipeline.contract.operation import Refresh
from knowledge_pipeline.serve import refreshes as refresh_queue
from knowledge_pipeline.serve.refresh_history import RefreshHistory
from knowledge_pipeline.serve.refreshes import RefreshQueue
from knowledge_pipeline.stages.pipeline import roll_back_release
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.progress import PublishedHeartbeat, SourceProgress, create_heartbeat
from knowledge_pipeline_tests.fakes.jira.events import ticket_event
from knowledge_pipeline_tests.fakes.webhook_sender import sign_jira
from knowledge_pipeline_tests.serve.conftest import copy_world
from knowledge_pipeline_tests.serve.running import Running
from knowledge_pipeline_tests.serve.test_http_search import API, ask, refused
from knowledge_pipeline_tests.serve.test_webhooks import github, gitlab
from knowledge_pipeline_tests.serve.world import SOURCES

NOT_READ = "no source reads what the event is about"
REPOSITORY = "https://github.com/acme/shop"
NEW = {"id": "new-docs", "type": "markdown", "connection": {"type": "git", "url": REPOSITORY}}


@pytest.fixture(scope="module")
def refusing(world, tmp_path_factory):
    """The configuration of a server that is asked for nothing that it would do, and an operator's client."""
    with pytest.MonkeyPatch.context() as patched:
        copy = copy_world(world, tmp_path_factory.mktemp("refusing") / "world", patched)
        with Running(copy.settings, config=copy.config) as running:
            yield copy.config, running.client(copy.tokens["operator"])


@pytest.fixture
def refreshing(own_world, tmp_path):
    """A server over a world of its own, whose refreshes print nothing and end well."""
    calls = tmp_path / "calls"
    write = f"open({str(calls)!r}, 'a').write(' '.join(json.loads(sys.stdin.readline())) + chr(10))"
    script = f"import json, sys; {write}"
    refreshes = RefreshQueue(
        own_world.config,
        Lake(own_world.settings.store).folder,
        cli_command=(sys.executable, "-S", "-c", script),
    )
    named = {"NO_SUCH_VARIABLE": ("github.com", "wiki.example.com")}
    with Running(
        own_world.settings, config=own_world.config, refreshes=refreshes, source_secrets=named
    ) as running:
        yield running


@pytest.fixture
def operator(refreshing, own_world):
    return refreshing.client(own_world.tokens["operator"])


@pytest.fixture
def admin(refreshing, own_world):
    """Of the tenant acme."""
    return refreshing.client(own_world.tokens["admin"])


def refreshes(client):
    return client.get(f"{API}/sync/status").json()["refreshes"]


def all_done(client):
    deadline = time.monotonic() + 120
    while any(each["status"] in ("queued", "running") for each in refreshes(client)):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return [(each["sources"], each["status"]) for each in refreshes(client)]


def test_a_running_refresh_says_how_far_it_is(operator, own_world):
    folder, (source, other) = Lake(own_world.settings.store).folder, (each.id for each in SOURCES[:2])
    began, shown = datetime.now(UTC), SourceProgress(folder, source)
    history = RefreshHistory(folder)  # of another worker
    run, waiting = "a" * 32, "b" * 32
    for id, status, sources in ((run, "running", (source, other)), (waiting, "queued", (source,))):
        history.record(Refresh(id, sources, "sync", status, began))
    shown.show()
    shown.report("embeddings", 30, 120, 2.49999, 36.04)
    progress = {"source": source, "stage": "embeddings", "done": 30, "of": 120}
    progress |= {"rate": 2.5, "seconds_left": 36.0}
    assert operator.get(f"{API}/sync/status/{run}").json()["progress"] == [progress]
    assert operator.get(f"{API}/sync/status/{waiting}").json()["progress"] == []
    assert [each["progress"] for each in refreshes(operator) if each["id"] == run] == [[progress]]
    shown.hide()
    assert operator.get(f"{API}/sync/status/{run}").json()["progress"] == []
    history.close()


def test_sources_are_told_to_those_who_manage_them_and_without_secrets(operator, admin, own_world):
    told = operator.get(f"{API}/sources").text
    assert [each["id"] for each in json.loads(told)["sources"]] == [source.id for source in SOURCES]
    assert not any(secret in told for secret in own_world.environment.values())
    mine = admin.get(f"{API}/sources").json()["sources"]
    assert {each["id"] for each in mine} == {each.id for each in SOURCES if each.tenant == "acme"}


def test_a_source_is_declared_and_removed(operator, own_world):
    entry = NEW | {"connection": {**NEW["connection"], "token": "${NO_SUCH_VARIABLE}"}}
    added = operator.post(f"{API}/sources", json=entry)
    assert (added.status_code, added.json()["location"]) == (201, REPOSITORY)
    assert "${NO_SUCH_VARIABLE}" in own_world.config.read_text()
    assert "NO_SUCH_VARIABLE" not in operator.get(f"{API}/sources").text
    again = operator.post(f"{API}/sources", json=entry)
    assert "already" in refused(again, 422, "ConfigError")
    other = operator.post(f"{API}/sources", json=NEW | {"id": "more-docs", "type": "documentation"})
    assert (other.status_code, other.json()["type"]) == (201, "markdown")
    assert operator.delete(f"{API}/sources/more-docs").status_code == 200
    assert operator.delete(f"{API}/sources/new-docs").json() == {"source_id": "new-docs", "purge": None}
    assert file.load_settings(own_world.config).sources == own_world.settings.sources
    gone = refused(operator.delete(f"{API}/sources/new-docs"), 404, "NotFound")
    assert str(own_world.root) not in gone


def test_a_source_is_declared_with_every_key_of_its_type(operator, own_world):
    entry = {
        "id": "new-pages",
        "type": "confluence",
        "connection": {
            "type": "confluence",
            "url": "https://wiki.example.com",
            "token": "${NO_SUCH_VARIABLE}",
        },
        "spaces": ["OPS"],
        "labels": ["rota"],
        "exclude_labels": ["old"],
        "content_types": ["page"],
        "comments": False,
        "since": "2 years",
        "max_results": 500,
        "max_bytes": 200000,
        "chunking": {"strategy": "semantic", "max_section_depth": 2},
        "metadata": {"tags": ["wiki"]},
        "sanitize": {"personal_data": "off"},
        "refresh": {"trigger": "hourly", "full_reindex": "weekly"},
        "access": {"visibility": "private", "tenant": "acme", "principals": ["ops"]},
    }
    added = operator.post(f"{API}/sources", json=entry)
    assert (added.status_code, added.json()["refresh_trigger"]) == (201, "hourly"), added.text
    declared = file.load_settings(own_world.config).select_sources(["new-pages"])[0]
    kept = declared.model_dump(mode="json", exclude_unset=True, exclude={"connection"})
    assert kept | {"connection": entry["connection"]} == entry
    wrong = operator.post(f"{API}/sources", json=entry | {"id": "other", "include": ["docs/"]})
    assert "include does not apply to type 'confluence'" in refused(wrong, 422, "ConfigError")


@pytest.mark.sampled
@pytest.mark.parametrize(
    "entry",
    [
        {},
        NEW | {"id": "No Id"},
        NEW | {"type": "no-type"},
        NEW | {"connection": {"type": "git"}},
        NEW | {"connection": {"type": "git", "url": "https://a:b@github.com/x/y"}},
        NEW | {"connection": {"type": "git", "url": REPOSITORY, "token": "written-out"}},
        NEW | {"unknown": 1},
        NEW | {"type": "custom", "connection": {"type": "custom", "use": "os:getcwd"}},
        NEW | {"type": "table", "connection": {"type": "duckdb", "path": "a.db", "query": "select 1"}},
    ],
)
def test_a_wrong_source_changes_nothing(refusing, entry):
    config, operator = refusing
    before = config.read_bytes()
    answer = operator.post(f"{API}/sources", json=entry)
    assert answer.status_code == 422
    assert "written-out" not in answer.text and str(config.parent) not in answer.text
    assert config.read_bytes() == before


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"connection": {"type": "git", "url": "https://${TEST_JIRA_TOKEN}.example/x"}}, "connection.url"),
        ({"connection": {**NEW["connection"], "branch": "${TEST_JIRA_TOKEN}"}}, "connection.branch"),
        ({"include": ["${TEST_JIRA_TOKEN}"]}, "include"),
        ({"metadata": {"custom": ["os:getcwd"]}}, "metadata.custom"),
        ({"chunking": {"custom": "os:getcwd"}}, "chunking.custom"),
        ({"sanitize": {"custom": ["os:getcwd"]}}, "sanitize.custom"),
        ({"files": {"extractor": "os:getcwd"}}, "files.extractor"),
        ({"type": "table", "connection": {"type": "table_files", "path": "/etc/*.json"}}, "connection.path"),
        ({"connection": {"type": "local", "path": "/etc"}}, "connection.path"),
        ({"connection": {"type": "local", "path": "./shop-docs/../../elsewhere"}}, "connection.path"),
        ({"connection": {"type": "local", "path": "~"}}, "connection.path"),
        ({"connection": {"type": "git", "url": "/etc"}}, "connection.url"),
        ({"connection": {"type": "git", "url": "file:///etc"}}, "connection.url"),
        ({"connection": {"type": "git", "url": "../other"}}, "connection.url"),
        ({"type": "code", "metadata": {"coverage": "/etc/passwd"}}, "metadata.coverage"),
        ({"connection": {"type": "git", "url": "FILE:///etc"}}, "connection.url"),
        ({"connection": {"type": "git", "url": " file:///etc"}}, "connection.url"),
        ({"connection": {"type": "git", "url": "\tfile:///etc"}}, "connection.url"),
        ({"connection": {"type": "git", "url": "fi\tle:///etc"}}, "connection.url"),
        ({"connection": {"type": "git", "url": "file:/etc"}}, "connection.url"),
        ({"connection": {"type": "git", "url": "file://localhost/etc"}}, "connection.url"),
        ({"connection": {"type": "git", "url": "//etc"}}, "connection.url"),
        ({"connection": {"type": "git", "url": "~"}}, "connection.url"),
        ({"connection": {"type": "git", "url": "shop-docs"}}, "connection.url"),
        ({"connection": {"type": "git", "url": "ext::sh -c id"}}, "connection.url"),
        ({"connection": {"type": "git", "url": "ftp://example.com/x"}}, "connection.url"),
        ({"connection": {"type": "git", "url": "https://good.example\\@example.com/x"}}, "connection.url"),
        ({"connection": {"type": "git", "url": "https://exa mple.com/x"}}, "connection.url"),
        ({"connection": {"type": "git", "url": "https://ｅxample.com/x"}}, "connection.url"),
        ({"connection": {"type": "git", "url": "https://*/x"}}, "connection.url"),
        ({"access": {"mapping": {"token": "${TEST_JIRA_TOKEN}"}}}, "access.mapping.token"),
        ({"embedding": {"provider": "openai", "model": "m", "base_url": "http://127.0.0.1:9"}}, "embedding"),
        (
            {"connection": {"type": "gcs", "bucket": "docs", "endpoint_url": "https://other.example"}},
            "connection.endpoint_url",
        ),
        (
            {"connection": {"type": "gcs", "bucket": "docs", "credentials": "/etc/key.json"}},
            "connection.credentials",
        ),
        (
            {
                "connection": {
                    "type": "archive_file",
                    "object": {
                        "type": "gcs",
                        "bucket": "docs",
                        "prefix": "a.zip",
                        "credentials": "/etc/key.json",
                    },
                }
            },
            "connection.object.credentials",
        ),
        ({"connection": {"type": "archive_file", "path": "/etc/a.zip"}}, "connection.path"),
    ],
)
def test_a_source_over_http_names_no_variable_no_code_and_no_file_of_the_machine(
    refusing, world, changes, key
):
    config, operator = refusing
    before = config.read_bytes()
    answer = operator.post(f"{API}/sources", json=NEW | changes)
    assert refused(answer, 422, "InvalidQuery").startswith(f"{key}: ")
    assert world.environment["TEST_JIRA_TOKEN"] not in answer.text
    assert config.read_bytes() == before


def test_a_folder_below_a_root_that_the_operator_names_is_declared_over_http(own_world):
    entry = NEW | {"connection": {"type": "local", "path": "shop-docs/guides"}}
    with Running(
        own_world.settings, config=own_world.config, source_roots=(own_world.root / "shop-docs",)
    ) as running:
        client = running.client(own_world.tokens["operator"])
        assert client.post(f"{API}/sources", json=entry).status_code == 201
        outside = entry | {"id": "outside", "connection": {"type": "local", "path": "acme-docs"}}
        assert "serve.source_roots" in refused(
            client.post(f"{API}/sources", json=outside), 422, "InvalidQuery"
        )
        missing = entry | {"id": "missing", "connection": {"type": "local", "path": "shop-docs/later"}}
        assert "make it first" in refused(client.post(f"{API}/sources", json=missing), 422, "InvalidQuery")
        (own_world.root / "shop-docs" / "loop").symlink_to("loop")
        loop = entry | {"id": "loop", "connection": {"type": "local", "path": "shop-docs/loop"}}
        assert "leads nowhere" in refused(client.post(f"{API}/sources", json=loop), 422, "ConfigError")


def test_a_repository_of_this_machine_is_below_a_root_with_all_that_git_opens(own_world, tmp_path):
    root, outside = own_world.root / "shop-docs", tmp_path / "outside"
    for folder in (root / "plain", outside):
        folder.mkdir()
        run_git(["init", "--quiet", str(folder)], repository=None)
    (root / "link").symlink_to(outside)
    (root / "worktree").mkdir()
    (root / "worktree" / ".git").write_text(f"gitdir: {outside}/.git\n")
    (root / "bare").mkdir()
    (root / "bare.git").symlink_to(outside / ".git")
    with Running(own_world.settings, config=own_world.config, source_roots=(root,)) as running:
        client = running.client(own_world.tokens["operator"])

        def declare(id, url):
            return client.post(
                f"{API}/sources", json=NEW | {"id": id, "connection": {"type": "git", "url": url}}
            )

        before = own_world.config.read_bytes()
        for url in (
            f"{root}/link",
            f"file://{root}/link",
            f"file://{root}/%2e%2e/acme-docs",
            f"file://{root}/plain/%2e%2e%2f%2e%2e%2f%2e%2e",
            f"{root}/worktree",
            f"{root}/bare",
            f"{root}/plain/../..",
        ):
            refusal = refused(declare("outside", url), 422, "InvalidQuery")
            assert refusal.startswith("connection.url: only folders below serve.source_roots"), url
        worktree = {
            "id": "w",
            "type": "git_history",
            "connection": {"type": "local", "path": f"{root}/worktree"},
        }
        refusal = refused(client.post(f"{API}/sources", json=worktree), 422, "InvalidQuery")
        assert refusal.startswith("connection.path: only folders below serve.source_roots")
        assert own_world.config.read_bytes() == before
        for number, url in enumerate((f"{root}/plain", f"FILE://{root}/plain", "./shop-docs/plain")):
            assert declare(f"inside-{number}", url).status_code == 201


def test_a_variable_goes_over_http_only_to_the_hosts_that_the_operator_names(own_world):
    named = {"TEST_GITHUB_SECRET": ("github.com", "wiki.example")}
    with Running(own_world.settings, config=own_world.config, source_secrets=named) as running:
        client = running.client(own_world.tokens["operator"])
        secret, other = "${TEST_GITHUB_SECRET}", "${TEST_JIRA_TOKEN}"
        issues = {"type": "github_issues"}
        jira, bucket = {"type": "jira"}, {"type": "files"}
        keys = {"access_key_id": secret, "secret_access_key": secret}
        refusals = [
            (NEW, {"type": "git", "url": REPOSITORY, "token": other}),
            (NEW, {"type": "git", "url": REPOSITORY, "token": "${NO_SUCH_VARIABLE}"}),
            (NEW, {"type": "git", "url": "https://evil.example/acme/shop", "token": secret}),
            (NEW, {"type": "git", "url": "https://github.com@evil.example/acme/shop", "token": secret}),
            (NEW, {"type": "git", "url": "https://github.com.evil.example/acme/shop", "token": secret}),
            (
                NEW,
                {"type": "git", "url": "https://evil.example/a/b", "app": {"id": 1, "private_key": secret}},
            ),
            (
                NEW | issues,
                {"type": "github", "repository": "a/b", "url": "https://evil.example", "token": secret},
            ),
            (NEW | jira, {"type": "jira", "url": "https://evil.example#.wiki.example", "token": secret}),
            (NEW | jira, {"type": "jira", "url": "https://evil.example\\.wiki.example", "token": secret}),
            (NEW | bucket, {"type": "s3", "bucket": "docs", "endpoint_url": "https://evil.example", **keys}),
        ]
        before = own_world.config.read_bytes()
        for entry, connection in refusals:
            answer = client.post(f"{API}/sources", json=entry | {"connection": connection})
            assert "serve.source_secrets" in refused(answer, 422, "InvalidQuery"), connection
        assert own_world.config.read_bytes() == before
        allowed = [
            (NEW, {"type": "git", "url": REPOSITORY, "token": secret}),
            (NEW | issues, {"type": "github", "repository": "acme/shop", "token": secret}),
            (NEW | jira, {"type": "jira", "url": "https://wiki.example", "token": secret}),
        ]
        for number, (entry, connection) in enumerate(allowed):
            answer = client.post(
                f"{API}/sources", json=entry | {"id": f"own-{number}", "connection": connection}
            )
            assert answer.status_code == 201, answer.text


def test_every_path_and_every_secret_of_a_source_is_under_the_check():
    """A new key that is a list of paths, or a secret elsewhere, is a hole until it is checked."""
    fields = dict(list_fields(SourceConfig, ()))
    secrets = {keys for keys, annotation in fields.items() if "SecretStr" in str(annotation)}
    assert {keys[0] for keys in secrets} == {"connection", "embedding"}
    collections_of_paths = [
        keys for keys, it in fields.items() if re.search(r"(tuple|list|dict)\[.*Path", str(it))
    ]
    assert collections_of_paths == []


def list_fields(model, keys):
    for name, field in model.model_fields.items():
        models = list_models(field.annotation)
        if not models:
            yield (*keys, name), field.annotation
        for inner in models:
            yield from list_fields(inner, (*keys, name))


def test_who_does_not_see_everything_cannot_declare_or_remove(admin, own_world):
    before = own_world.config.read_bytes()
    refused(admin.post(f"{API}/sources", json=NEW), 403, "Forbidden")
    refused(admin.delete(f"{API}/sources/acme-code"), 403, "Forbidden")
    assert own_world.config.read_bytes() == before


def test_what_is_stored_of_a_removed_source_is_purged_where_asked(operator, tmp_path):
    told = operator.delete(f"{API}/sources/acme-docs", params={"purge": True}).json()
    assert told["purge"]["sources"] == ["acme-docs"]
    assert all_done(operator) == [(["acme-docs"], "succeeded")]
    assert (tmp_path / "calls").read_text().startswith("purge --source acme-docs --yes")


def test_a_sync_starts_the_refresh_of_one_source_of_a_type_or_of_all(operator):
    for path, body, expected in (
        ("sync/acme-code", None, ["acme-code"]),
        ("sync/code", None, ["shop-code", "acme-code", "globex-code", "initech-code"]),
        ("sync", {"sources": ["shop-docs", "shop-code"]}, ["shop-docs", "shop-code"]),
        ("sync", {}, [source.id for source in SOURCES]),
    ):
        answer = operator.post(f"{API}/{path}", json=body)
        assert (answer.status_code, answer.json()["sources"]) == (202, expected)
    assert {status for _, status in all_done(operator)} == {"succeeded"}
    refused(operator.post(f"{API}/sync/no-such"), 404, "NotFound")
    refused(operator.post(f"{API}/sync", json={"sources": ["shop-docs", "no-such"]}), 404, "NotFound")


def test_a_tenants_admin_refreshes_and_sees_its_own_sources_alone(admin, operator):
    assert admin.post(f"{API}/sync/code").json()["sources"] == ["acme-code"]
    refused(admin.post(f"{API}/sync/globex-code"), 404, "NotFound")
    operator.post(f"{API}/sync/globex-docs")
    assert all_done(admin) == [(["acme-code"], "succeeded")]
    assert len(all_done(operator)) == 2


def test_a_server_without_a_file_refreshes_nothing(world):
    with Running(world.settings) as own:
        client = own.client(world.tokens["operator"])
        assert "knowledge.yaml" in refused(client.post(f"{API}/sync", json={}), 422, "ConfigError")


def signed(body, world):
    secret = world.environment["TEST_GITHUB_SECRET"]
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def hooked(client, world, told, *, event="push", delivery="d-1", **headers):
    body = json.dumps(told).encode()
    sent = {
        "Content-Type": "application/json",
        "X-GitHub-Event": event,
        "X-GitHub-Delivery": delivery,
        "X-Hub-Signature-256": signed(body, world),
        **headers,
    }
    return client.post("/webhooks/github", content=body, headers=sent)


def test_a_push_to_github_starts_the_refresh_of_what_reads_it_once(refreshing, operator, own_world):
    operator.post(f"{API}/sources", json=NEW)
    hooks, push = refreshing.client(), github()  # it holds the time: the same body is sent again below
    answer = hooked(hooks, own_world, push)
    assert answer.status_code == 202
    (started,) = answer.json()["refreshes"]
    assert (started["sources"], started["reason"]) == (["new-docs"], "github")
    assert all_done(operator) == [(["new-docs"], "succeeded")]
    for again in (
        hooked(hooks, own_world, github(after="b" * 40)),
        hooked(hooks, own_world, push, delivery="d-2"),
    ):
        assert (again.json()["refreshes"], again.json()["ignored_reason"]) == (
            [],
            "this delivery was received before",
        )
    other = hooked(hooks, own_world, github(ref="refs/heads/other"), delivery="d-3")
    assert other.json()["ignored_reason"] == NOT_READ
    assert len(refreshes(operator)) == 1


def test_an_event_leaves_alone_what_is_refreshed_by_hand(refreshing, operator, own_world):
    operator.post(f"{API}/sources", json={**NEW, "refresh": {"trigger": "manual"}})
    answer = hooked(refreshing.client(), own_world, github())
    assert (answer.status_code, answer.json()["ignored_reason"]) == (202, NOT_READ)


def test_a_forged_or_foreign_delivery_starts_nothing(refreshing, operator, own_world):
    operator.post(f"{API}/sources", json=NEW)
    hooks = refreshing.client()
    forged = hooked(hooks, own_world, github(), **{"X-Hub-Signature-256": "sha256=" + "0" * 64})
    refused(forged, 401, "Unauthenticated")
    refused(hooks.post("/webhooks/github", json=github()), 401, "Unauthenticated")
    repository = {"clone_url": "https://github.com/acme/unknown"}
    foreign = hooked(hooks, own_world, github(repository=repository), delivery="d-9")
    assert (foreign.status_code, foreign.json()["ignored_reason"]) == (202, NOT_READ)
    refused(hooked(hooks, own_world, {"ref": 1}, delivery="d-10"), 422, "InvalidQuery")
    assert refreshes(operator) == []
    assert hooked(hooks, own_world, github()).json()["refreshes"], "a forged one is not remembered"


@pytest.mark.parametrize(("event", "why"), [("ping", "ping"), ("star", "nothing that is indexed")])
def test_other_events_are_answered_and_start_nothing(refreshing, own_world, event, why):
    answer = hooked(refreshing.client(), own_world, {"zen": "Keep it simple."}, event=event)
    assert answer.status_code == 202 and why in answer.json()["ignored_reason"]


def test_a_push_to_gitlab_starts_the_refresh_of_what_reads_it_once(refreshing, operator, own_world):
    url = "git@gitlab.example:acme/web/shop.git"
    operator.post(f"{API}/sources", json=NEW | {"connection": {"type": "git", "url": url}})
    token = own_world.environment["TEST_GITLAB_TOKEN"]
    sent = {"X-Gitlab-Event": "Push Hook", "X-Gitlab-Token": token, "Idempotency-Key": "k-1"}
    hooks = refreshing.client()
    first = hooks.post("/webhooks/gitlab", json=gitlab(), headers=sent)
    assert first.json()["refreshes"][0]["sources"] == ["new-docs"]
    again = hooks.post("/webhooks/gitlab", json=gitlab(after="c" * 40), headers=sent)
    assert again.json()["ignored_reason"] == "this delivery was received before"
    refused(
        hooks.post("/webhooks/gitlab", json=gitlab(), headers=sent | {"X-Gitlab-Token": "x"}),
        401,
        "Unauthenticated",
    )
    system = sent | {"X-Gitlab-Event": "System Hook", "Idempotency-Key": "k-2"}
    ignored = hooks.post("/webhooks/gitlab", json={"event_name": "project_create"}, headers=system)
    assert ignored.json()["ignored_reason"] == "nothing that is indexed changes by this event"


def test_an_event_of_a_ticket_reads_the_ticket_once(refreshing, operator, own_world, tmp_path, monkeypatch):
    monkeypatch.setattr(refresh_queue, "GATHER_S", 0.1)
    (source,) = own_world.settings.select_sources(["acme-tickets"])
    secret, hooks = own_world.environment["TEST_JIRA_SECRET"], refreshing.client()
    event = ticket_event(source.connection.url, f"{source.projects[0]}-1", "issue/10001")
    deleted = sign_jira(secret, "jira:issue_deleted", event)
    forged = sign_jira(secret + "x", "jira:issue_deleted", event)
    refused(forged.post("", hooks), 401, "Unauthenticated")
    assert deleted.post("", hooks).json()["refreshes"][0]["reason"] == "jira"
    again = deleted.post("", hooks).json()
    assert again["ignored_reason"] == "this delivery was received before"
    foreign = sign_jira(secret, "jira:issue_updated", ticket_event("https://far.example", "X-1", "issue/1"))
    assert foreign.post("", hooks).json()["ignored_reason"] == NOT_READ
    assert all_done(operator) == [(["acme-tickets"], "succeeded")]
    (call,) = (tmp_path / "calls").read_text().splitlines()
    assert call.startswith("refresh --source acme-tickets --document acme-tickets/issue/10001 ")
    told = {each["id"]: each["state"] for each in operator.get(f"{API}/collections").json()["collections"]}
    event = told["acme-tickets"].pop("last_event")
    assert datetime.fromisoformat(event.pop("at")).tzinfo
    assert event == {"service": "jira", "kind": "jira:issue_deleted", "state": "done", "error": None}
    assert {id_ for id_, state in told.items() if state.get("last_event")} == set()
    assert re.search(r"jira:issue_deleted of jira [^<]*: taken in", operator.get("/sources").text)


def test_a_refused_release_is_told_to_those_alone_who_may_see_what_it_is_about(own_world, monkeypatch):
    """Of a source of acme: its words, its name and its counts are for nobody else."""
    monkeypatch.setattr(refresh_queue, "GATHER_S", 0.0)
    secret = "source 'acme-docs': chunk 1 of 'plan.md' is not found by its words 'merger zanzibar'"
    refusal = {"source": "release", "error": secret, "kind": "ReleaseRefused", "temporary": False}
    told = {"release": {"release": 7}, "failures": [refusal | {"about": ["acme-docs"]}]}
    script = f"import sys; sys.stdin.readline(); print({json.dumps(told)!r}); sys.exit(1)"
    folder = Lake(own_world.settings.store).folder
    refreshes = RefreshQueue(own_world.config, folder, cli_command=(sys.executable, "-S", "-c", script))
    with Running(own_world.settings, config=own_world.config, refreshes=refreshes) as running:
        clients = {name: running.client(own_world.tokens[name]) for name in ("operator", "acme", "globex")}
        clients |= {"nobody": running.client(), "admin": running.client(own_world.tokens["admin"])}
        (tickets,) = own_world.settings.select_sources(["acme-tickets"])
        (public,) = own_world.settings.select_sources(["shop-tickets"])
        secret_key = own_world.environment["TEST_JIRA_SECRET"]
        for source in (public, tickets):
            event = ticket_event(source.connection.url, f"{source.projects[0]}-1", "issue/10001")
            assert sign_jira(secret_key, "jira:issue_updated", event).post("", clients["nobody"]).is_success
        clients["operator"].post(f"{API}/sync", json={"sources": ["shop-docs", "acme-code"]})
        clients["operator"].post(f"{API}/sync/acme-code")
        clients["operator"].post(f"{API}/sync/acme-tickets")
        assert {status for _, status in all_done(clients["operator"])} == {"failed"}

        def read_errors(name):
            states = clients[name].get(f"{API}/collections").json()["collections"]
            return {each["id"]: each["state"]["last_event"]["error"] for each in states
                    if each["state"] and each["state"]["last_event"]}  # fmt: skip

        for reader in ("operator", "acme"):
            assert "zanzibar" in read_errors(reader)["shop-tickets"]
        for stranger in ("nobody", "globex"):
            assert read_errors(stranger) == {"shop-tickets": "a release is refused"}
            assert "zanzibar" not in clients[stranger].get("/sources").text
        errors = {each["error"] for each in refreshes_of(clients["admin"])}
        assert errors and all("zanzibar" in error for error in errors)


def refreshes_of(client):
    return client.get(f"{API}/sync/status").json()["refreshes"]


def test_counts_of_watched_sources_are_for_monitors(own_world, server):
    folder = Lake(server.service.settings.store).folder
    beat = PublishedHeartbeat(
        folder, replace(create_heartbeat(), sources=9, behind=("acme-docs",), state="waiting")
    )
    try:
        anybody = server.client().get("/health/watcher")
        assert (
            anybody.json()["watchers"][0] | {"sources": None, "behind": None} == anybody.json()["watchers"][0]
        )
        assert "behind" not in anybody.json()["detail"] and "acme" not in anybody.text
        operator = server.client(own_world.tokens["operator"]).get("/health/watcher").json()
        assert (operator["watchers"][0]["sources"], operator["watchers"][0]["behind"]) == (9, 1)
    finally:
        beat.remove()


def test_a_webhook_may_be_larger_than_a_question_and_not_endless(refreshing, own_world):
    hooks = refreshing.client()
    padded = github(commits=["x" * 2_000_000])
    assert hooked(hooks, own_world, padded).status_code == 202
    refused(hooks.post("/webhooks/github", content=b"x" * 5_000_001), 413, "ContentTooLarge")


def test_without_a_secret_webhooks_are_refused(world):
    with Running(world.settings, config=world.config, webhooks=WebhookSettings()) as own:
        assert "github_secret" in refused(own.client().post("/webhooks/github", json={}), 403, "Forbidden")
        assert "gitlab_token" in refused(own.client().post("/webhooks/gitlab", json={}), 403, "Forbidden")


def test_collections_and_status_tell_what_may_be_seen(asking, world):
    told = asking("acme").get(f"{API}/collections").json()
    assert {each["id"] for each in told["collections"]} == {each.id for each in world.sources_of("acme")}
    assert all(each["refreshed_at"] and each["type"] and each["chunks"] for each in told["collections"])
    status = asking("acme").get(f"{API}/status").json()
    assert set(status["by_source"]) == {each.id for each in world.sources_of("acme")}
    assert status["unindexed_rows"] == {}
    assert asking("operator").get(f"{API}/status").json()["unindexed_rows"]


def test_whether_a_source_is_stale_is_told_to_whom_may_see_all_of_it(asking, world):
    for caller in ("operator", "acme", "public"):
        told = {each["id"]: each for each in asking(caller).get(f"{API}/collections").json()["collections"]}
        states = {id_: each["state"] for id_, each in told.items() if each["state"]}
        seen = {each.id for each in world.sources_of(caller)} if caller != "operator" else set(told)
        assert states.keys() == told.keys() & seen and states
        for state in states.values():
            assert (state["state"], state["reason"]) == ("fresh", "") and state["trigger"]
            assert (state["cost"] is None) == (caller == "public")
        page = asking(caller).get("/sources").text
        assert page.count("without Dagster") == len(states)


def test_a_pinned_rollback_is_told_by_http_python_and_the_page(own_world):
    lake, settings = Lake(own_world.settings.store), own_world.settings
    with Running(settings, config=own_world.config) as own:
        operator, public = own.client(own_world.tokens["operator"]), own.client(own_world.tokens["public"])
        before = operator.get(f"{API}/status").json()
        assert (before["pin"], before["pinned_since"], before["restores"]) == (None, None, None)
        assert "is pinned" not in public.get("/").text + public.get("/sources").text
        pinned = roll_back_release(lake, settings, before["release"])
        for client in (operator, public):
            told = client.get(f"{API}/status").json()
            assert told["pin"] == pinned.pin == client.get(f"{API}/collections").json()["pin"]
            assert told["restores"] == before["release"] and told["pinned_since"].startswith("20")
            for page in ("/", "/sources"):
                assert f"R{pinned.pin[1:]}: what has changed since is not found" in client.get(page).text
    with KnowledgeBase.open(settings) as base:
        status = base.status()
    assert (status.pin, status.pinned_since) == (pinned.pin, pinned.pinned_since)


@pytest.mark.slow
def test_stats_count_the_questions_of_the_callers_tenant(own_world):
    with Running(own_world.settings, config=own_world.config) as own:
        clients = {
            name: own.client(own_world.tokens[name]) for name in ("acme", "globex", "public", "operator")
        }
        for _ in range(2):
            ask(clients["acme"], "search", query="payments")
        deadline = time.monotonic() + 120  # the log is written beside the answers
        while not clients["operator"].get(f"{API}/stats").json()["queries"]["count"]:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        told = {name: client.get(f"{API}/stats").json() for name, client in clients.items()}
        assert told["acme"]["queries"]["count"] == told["operator"]["queries"]["count"] == 2
        assert told["acme"]["queries"]["by_interface"] == {"http": 2}
        assert told["globex"]["queries"]["count"] == 0 and told["globex"]["queries"]["p95_ms"] is None
        assert told["public"]["queries"] is None
        refused(clients["acme"].get(f"{API}/stats", params={"hours": 0}), 422, "InvalidQuery")


def test_feedback_is_taken_from_those_who_asked(asking):
    told = ask(asking("acme"), "search", query="payments")
    judged = {"query_id": told["query_id"], "result_id": told["results"][0]["id"], "judgement": "useful"}
    assert asking("acme").post(f"{API}/feedback", json=judged).status_code == 204
    refused(asking("globex").post(f"{API}/feedback", json=judged), 404, "NotFound")
    refused(asking("acme").post(f"{API}/feedback", json=judged | {"judgement": "?"}), 422, "InvalidQuery")


def test_health_names_the_part_that_is_ill(own_world, server):
    well = server.client().get("/health").json()
    assert well["status"] == "ok"
    assert {name: part["status"] for name, part in well["components"].items()} == {
        "store": "ok",
        "embedder": "ok",
        "reranker": "disabled",
        "language_model": "disabled",
        "graph": "ok",
        "disk": "ok",
        "query_log": "ok",
    }
    nowhere = {"base_url": "http://127.0.0.1:9/v1"}
    model = {"model": "m", **nowhere}
    changed = own_world.settings.model_dump() | {"language_model": model}
    changed["embedding"] |= {**nowhere, "api_key": "k"}
    changed["query"] |= {"hyde": True}
    settings = type(own_world.settings).model_validate(changed | {"sources": []})
    shutil.rmtree(own_world.settings.store / "graph")
    with Running(settings, config=own_world.config) as ill:
        answer = ill.client().get("/health")
        parts = {name: part["status"] for name, part in answer.json()["components"].items()}
        assert (answer.status_code, answer.json()["status"]) == (200, "degraded")
        assert [name for name, status in parts.items() if status == "unhealthy"] == [
            "embedder",
            "language_model",
            "graph",
        ]
        assert str(own_world.root) not in answer.text and "127.0.0.1" not in answer.text


def test_a_server_without_a_release_lives_and_is_not_ready(own_world, tmp_path):
    settings = own_world.settings.model_copy(update={"store": tmp_path / "empty"})
    with Running(settings, config=own_world.config) as empty:
        client = empty.client()
        assert client.get("/health").json()["status"] == "unhealthy"
        assert "nothing is released" in refused(client.get("/ready"), 503, "Busy")
        refused(client.post(f"{API}/search", json={"query": "x"}), 404, "NotFound")

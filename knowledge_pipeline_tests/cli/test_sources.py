"""`sources list|add|remove|test`."""

from __future__ import annotations

from pathlib import Path

import pytest

from knowledge_pipeline.config.sources import FILTER_TYPES, SourceConfig
from knowledge_pipeline_tests.cli.conftest import Run
from knowledge_pipeline_tests.fakes.archives import pack
from knowledge_pipeline_tests.fakes.bucket.s3_server import S3Bucket
from knowledge_pipeline_tests.fakes.ollama_server import OllamaServer


def test_a_source_is_added_tested_refreshed_and_removed(home: Path, repository: Path, run: Run):
    added = run("sources", "add", "code", "--path", str(repository), "--exclude", "vendor/")
    assert "Added shop-code" in added.out and "knowledge sources test shop-code" in added.out
    tested = run("sources", "test", "shop-code")
    assert "shop-code: 1 document" in tested.out and "def sign_session" in tested.out
    run("refresh", "--source", "shop-code")
    removed = run("sources", "remove", "shop-code", "--yes")
    assert "erased 1 document." in removed.out
    assert run("sources", "list", "--json").json["sources"] == []
    assert run("status", "--json").json["sources"] == []
    assert (home / "knowledge.yaml").read_text().startswith("# made for a test\n")


def test_a_url_is_added_with_branch_and_the_name_of_its_token(home: Path, run: Run):
    url = "https://git.example.com/team/shop.git"
    added = run(
        *("sources", "add", "markdown", "--url", url, "--branch", "main", "--token-env", "SHOP_TOKEN"),
        *("--include", "docs/", "--id", "handbook", "--json"),
    ).json["added"]
    assert added == {
        "id": "handbook",
        "type": "markdown",
        "connection": {"type": "git", "url": url, "branch": "main", "token": "${SHOP_TOKEN}"},
        "include": ["docs/"],
    }
    assert "${SHOP_TOKEN}" in (home / "knowledge.yaml").read_text()


def test_a_type_is_an_option_as_well_and_may_have_another_word(home: Path, repository: Path, run: Run):
    added = run("sources", "add", "--type", "documentation", "--path", str(repository), "--id", "guide")
    assert "Added guide" in added.out
    assert [(row["source"], row["type"]) for row in run("sources", "list", "--json").json["sources"]] == [
        ("guide", "markdown")
    ]


def test_the_list_tells_type_place_and_trigger(indexed: Path, shop: Path, run: Run):
    assert run("sources", "list", "--json").json["sources"][0] == {
        "source": "shop-code",
        "type": "code",
        "where": str(shop),
        "branch": None,
        "refreshed": "on_commit",
        "visibility": "public",
    }
    assert "shop-history" in run("sources", "list").out


def test_content_can_be_kept_when_a_source_is_removed(indexed: Path, run: Run):
    kept = run("sources", "remove", "shop-docs", "--keep-content").out
    assert "its content stays" in kept
    status = {each["source"]: each for each in run("status", "--json").json["sources"]}
    assert status["shop-docs"]["configured"] is False and status["shop-docs"]["chunks"] == 1
    assert run("search", "signed", "--source", "shop-docs", "--json").json["results"]
    assert "erased 1 document" in run("purge", "--source", "shop-docs", "--yes").out.lower()
    assert not run("search", "signed", "--source", "shop-docs", "--json").json["results"]


def test_a_removal_that_nobody_confirms_changes_nothing(indexed: Path, run: Run):
    before = (indexed / "knowledge.yaml").read_text()
    assert "--yes" in run("sources", "remove", "shop-docs", code=2).err
    assert (indexed / "knowledge.yaml").read_text() == before
    assert run("search", "signed", "--source", "shop-docs", "--json").json["results"]


def test_a_broken_source_says_in_one_sentence_what_is_wrong(home: Path, tmp_path: Path, run: Run):
    folder = tmp_path / "brief"
    folder.mkdir()
    run("sources", "add", "code", "--path", str(folder), "--id", "brief")
    assert "lists no document" in run("sources", "test", "brief", code=1).err
    (folder / "a.py").write_bytes(b"\x00" * 100)
    assert "brief" in run("sources", "test", "brief", "--json", code=1).error["error"]
    (folder / "a.py").unlink()
    folder.rmdir()
    error = run("sources", "test", "brief", code=1).err
    assert error.startswith("error: ") and error.count("\n") == 1


def test_a_working_source_is_told_as_json(indexed: Path, run: Run):
    told = run("sources", "test", "shop-docs", "--json").json
    assert told["listed"] == 1 and told["skipped"] == {}
    assert told["document"]["path"] == "docs/guide.md"
    assert told["document"]["beginning"].startswith("# Guide")


def test_what_was_not_valid_or_not_read_is_told(indexed: Path, run: Run):
    folder = indexed / "mails"
    folder.mkdir()
    (folder / "a.eml").write_bytes("From: a@example.org\nSubject: Größe\n\nHöhe\n".encode("cp1252"))
    entry = f"  - id: mails\n    type: files\n    connection: {{type: local, path: {folder}}}\n"
    config = indexed / "knowledge.yaml"
    without = config.read_text().rstrip("\n") + f"\n{entry}"
    config.write_text(without)
    told = run("sources", "test", "mails", "--json").json["document"]
    assert (told["title"], told["note"]) == (
        "Gr\ufffd\ufffde",
        "not valid UTF-8 at 1 place, which reads \ufffd",
    )
    assert told["note"] in run("sources", "test", "mails").out
    assert f"mails: note: {told['note']} (a.eml) 1\n" in run("refresh", "--source", "mails").out
    for name in ("e", "d", "c", "b", f"{'long ' * 40}name"):
        (folder / f"{name}.eml").write_bytes((folder / "a.eml").read_bytes())
    assert f"{told['note']} (b.eml, c.eml, d.eml and 2 more) 5\n" in run("refresh", "--source", "mails").out
    config.write_text(f"{without}    encoding: windows-1252\n")
    told = run("sources", "test", "mails", "--json").json["document"]
    assert (told["title"], told["note"]) == ("Größe", None)
    config.write_text(f"{without}    encoding: latin-17\n")
    assert "found an unknown encoding" in run("sources", "test", "mails", code=2).err


def test_the_endpoint_that_embeds_a_source_is_asked_too(indexed: Path, run: Run):
    told = run("sources", "test", "shop-docs")
    assert "Embedding: hashed-words (openai) answers." in told.out
    config = (indexed / "knowledge.yaml").read_text()
    with OllamaServer() as server:
        own = f"provider: ollama\n  base_url: {server.url}\n  model: words\n"
        own += "  dimensions: 32\n  keep_alive: -1\n"
        start, end = config.index("provider: openai"), config.index("sources:")
        (indexed / "knowledge.yaml").write_text(config[:start] + own + config[end:])
        told = run("sources", "test", "shop-docs", code=1)
        assert "# Guide" in told.out and "run `ollama pull words` there" in told.out
        server.pull("words", context_length=256)
        told = run("sources", "test", "shop-docs", "--json").json["embedding"]
        assert (told["ready"], told["problem"], server.bodies[-1]["keep_alive"]) == (True, None, -1)
        assert "reads 256 tokens" in told["notes"][0]
    failed = run("sources", "test", "shop-docs", "--json", code=4).json["embedding"]
    assert not failed["ready"] and "did not answer" in failed["problem"]


def test_adding_without_a_file_writes_one(nowhere: Path, repository: Path, run: Run):
    run("sources", "add", "code", "--path", str(repository))
    assert (nowhere / "knowledge.yaml").read_text().count("- id:") == 1


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["add"], "TYPE"),
        (["add", "jira", "--path", "."], "read from a service"),
        (["add", "jira"], "give --url"),
        (["add", "jira", "--url", "example"], "not the address of a site"),
        (["add", "github_pr", "--url", "flask"], "not a repository on GitHub"),
        (["add", "github_pr", "--url", "https://github.com/a/b/c"], "not a repository on GitHub"),
        (["add", "github_pr", "--url", "a/b", "--email", "ann@example.com"], "--email is for Jira"),
        (["add", "code", "--path", ".", "--email", "ann@example.com"], "--email is for Jira"),
        (["add", "wiki"], "TYPE"),
        (["add", "--type", "wiki"], "--type"),
        (["add", "--path", "."], "give one type, as TYPE or as --type TYPE"),
        (["add", "code", "--type", "markdown", "--path", "."], "give one type"),
        (["add", "code"], "give --path FOLDER or --url URL"),
        (["add", "code", "--path", ".", "--url", "https://example.com/a"], "not both"),
        (["add", "code", "--path", ".", "--branch", "main"], "--url"),
        (["add", "code", "--path", "no/such"], "no/such is not a folder"),
        (["add", "code", "--path", ".", "--id", "Not An Id"], "id"),
        (["add", "code", "--path", ".", "--id", "shop-code"], "shop-code"),
        (["add", "files", "--url", "https://example.com/a"], "files"),
        (["add", "code", "--url", "https://ann:hunter2@example.com/a"], "URL"),
        (["add", "code", "--url", "ext::sh -c id"], "neither"),
        (["add", "code", "--path", ".", "--encoding", "latin-17"], "found an unknown encoding"),
        (
            ["add", "snippets", "--url", "https://gitlab.com/a/b", "--encoding", "cp1252"],
            "encoding does not apply",
        ),
        (["add", "code", "--path", ".", "--set", "depth"], "allowed: a key of the source"),
        (["add", "code", "--path", ".", "--set", "depth=5"], "depth does not apply to type 'code'"),
        (["add", "code", "--path", ".", "--set", "exlude=a"], "did you mean 'exclude'?"),
        (["add", "code", "--path", ".", "--set", "max_bytes=many"], "allowed: a whole number"),
        (["add", "code", "--path", ".", "--set", "max_bytes.of=5"], "max_bytes"),
        (["add", "code", "--path", ".", "--set", "id=b"], "--id does"),
        (["add", "code", "--path", ".", "--set", "connection.type=git"], "--path or --url does"),
        (["add", "code", "--path", ".", "--set", "access.visibility=secret"], "public, tenant, private"),
        (["add", "code", "--path", ".", "--set", "access.visibility=private"], "needs a tenant"),
        (
            ["add", "code", "--path", ".", "--set", "include=a", "--set", "include.of=b"],
            "include holds a value",
        ),
        (["add", "code", "--path", ".", "--set", "=b"], "allowed: a key of the source"),
        (["add", "jira", "--url", "https://a.example", "--set", "connection.token=hunter2"], "token"),
        (
            ["add", "jira", "--url", "https://a.example", "--include", "a"],
            "include does not apply to type 'jira'",
        ),
        (["add", "code", "--url", "s3://b/p", "--branch", "main"], "a bucket takes --url alone"),
        (["add", "git_history", "--url", "s3://bucket/p"], "is not read over connection.type 's3'"),
        (["remove"], "ID"),
        (["test"], "ID"),
    ],
)
def test_a_wrong_entry_is_refused_and_the_file_stays(
    indexed: Path, run: Run, arguments: list[str], sentence: str
):
    before = (indexed / "knowledge.yaml").read_text()
    refused = run("sources", *arguments, code=2)
    assert sentence in refused.err
    assert "hunter2" not in refused.err
    assert (indexed / "knowledge.yaml").read_text() == before


@pytest.mark.parametrize("command", [["remove", "nope", "--yes"], ["test", "nope"]])
def test_an_unknown_source_is_not_found(indexed: Path, run: Run, command: list[str]):
    assert "nope" in run("sources", *command, code=3).err


@pytest.mark.parametrize(
    ("arguments", "entry"),
    [
        (
            ["github_pr", "--url", "pallets/flask"],
            {
                "id": "flask-pulls",
                "type": "github_pr",
                "connection": {"type": "github", "repository": "pallets/flask", "token": "${GITHUB_TOKEN}"},
            },
        ),
        (
            ["github_issues", "--url", "https://git.example.org/team/app.git", "--token-env", "GHE"],
            {
                "id": "app-issues",
                "type": "github_issues",
                "connection": {
                    "type": "github",
                    "repository": "team/app",
                    "url": "https://git.example.org/api/v3",
                    "token": "${GHE}",
                },
            },
        ),
        (
            ["releases", "--url", "https://gitlab.com/team/sub/app"],
            {
                "id": "app-releases",
                "type": "releases",
                "connection": {"type": "gitlab", "project": "team/sub/app", "token": "${GITLAB_TOKEN}"},
            },
        ),
        (
            ["markdown", "--url", "https://github.com/pallets/flask/wiki/Home", "--token-env", "GHE"],
            {
                "id": "flask-wiki",
                "type": "markdown",
                "connection": {
                    "type": "github",
                    "repository": "pallets/flask",
                    "wiki": True,
                    "token": "${GHE}",
                },
            },
        ),
        (
            ["slack"],
            {
                "id": "workspace-slack",
                "type": "slack",
                "connection": {"type": "slack", "token": "${SLACK_TOKEN}"},
            },
        ),
        (
            ["slack", "--path", "export.zip"],
            {
                "id": "slack",
                "type": "slack",
                "connection": {"type": "slack_export", "path": "export.zip"},
            },
        ),
        (
            ["jira", "--url", "https://example.atlassian.net/", "--email", "ann@example.com"],
            {
                "id": "example-tickets",
                "type": "jira",
                "connection": {
                    "type": "jira",
                    "url": "https://example.atlassian.net",
                    "email": "ann@example.com",
                    "token": "${JIRA_TOKEN}",
                },
            },
        ),
        (
            ["confluence", "--url", "https://wiki.example.org", "--token-env", "", "--id", "wiki"],
            {
                "id": "wiki",
                "type": "confluence",
                "connection": {"type": "confluence", "url": "https://wiki.example.org"},
            },
        ),
    ],
)
def test_a_service_is_added_with_what_it_must_know(indexed: Path, run: Run, arguments, entry):
    added = run("sources", "add", *arguments, "--json").json["added"]
    has_attachments = entry["type"] in FILTER_TYPES["attachments"] and "path" not in entry["connection"]
    assert added == ({**entry, "attachments": True} if has_attachments else entry)
    listed = {each["source"]: each for each in run("sources", "list", "--json").json["sources"]}
    assert listed[entry["id"]]["type"] == entry["type"]
    assert "TOKEN" not in listed[entry["id"]]["where"]


@pytest.mark.parametrize(
    ("arguments", "entry"),
    [
        (
            [
                *(
                    "jira",
                    "--url",
                    "https://jira.example.com",
                    "--set",
                    "jql=labels = x AND summary ~ 'a, b'",
                ),
                *("--set", "projects=OPS,PAY", "--set", "projects=HR", "--set", "max_results=50"),
                *("--set", "since=2 years", "--set", "issue_types=Bug", "--set", 'statuses=["Done, all"]'),
                *("--set", "custom_fields=Team", "--set", "labels=urgent"),
            ],
            {
                "id": "jira-tickets",
                "type": "jira",
                "connection": {"type": "jira", "url": "https://jira.example.com", "token": "${JIRA_TOKEN}"},
                "jql": "labels = x AND summary ~ 'a, b'",
                "projects": ["OPS", "PAY", "HR"],
                "max_results": 50,
                "since": "2 years",
                "issue_types": ["Bug"],
                "statuses": ["Done, all"],
                "custom_fields": ["Team"],
                "labels": ["urgent"],
            },
        ),
        (
            [
                *("confluence", "--url", "https://example.atlassian.net/wiki", "--token-env", ""),
                *("--set", "spaces=OPS", "--set", "comments=false", "--set", "exclude_labels=old"),
                *("--set", "content_types=page", "--set", "max_bytes=200000", "--set", "access.tenant=acme"),
                *("--set", "access.visibility=from_source", "--set", "access.principals=ops,ann@example.com"),
                *("--set", 'access.mapping={"*": "*@example.com"}', "--set", "refresh.trigger=hourly"),
                *("--set", "sanitize.personal_data=off", "--set", "metadata.tags=wiki"),
            ],
            {
                "id": "example-pages",
                "type": "confluence",
                "connection": {"type": "confluence", "url": "https://example.atlassian.net/wiki"},
                "spaces": ["OPS"],
                "comments": False,
                "exclude_labels": ["old"],
                "content_types": ["page"],
                "max_bytes": 200000,
                "access": {
                    "tenant": "acme",
                    "visibility": "from_source",
                    "principals": ["ops", "ann@example.com"],
                    "mapping": {"*": "*@example.com"},
                },
                "refresh": {"trigger": "hourly"},
                "sanitize": {"personal_data": "off"},
                "metadata": {"tags": ["wiki"]},
            },
        ),
        (
            ["markdown", "--url", "https://acme.blob.core.windows.net/guides/public"],
            {
                "id": "guides-docs",
                "type": "markdown",
                "connection": {"type": "azure", "account": "acme", "container": "guides", "prefix": "public"},
            },
        ),
        (
            [
                "files",
                "--url",
                "s3://reports/2026/pdf",
                "--set",
                "connection.region=eu-west-1",
                "--include",
                "*.pdf",
            ],
            {
                "id": "reports-files",
                "type": "files",
                "connection": {
                    "type": "s3",
                    "bucket": "reports",
                    "prefix": "2026/pdf",
                    "region": "eu-west-1",
                },
                "include": ["*.pdf"],
            },
        ),
        (
            [
                *("github_pr", "--url", "pallets/flask", "--token-env", "", "--include", "src/"),
                *("--set", "connection.app.id=7", "--set", "connection.app.private_key=${APP_KEY}"),
                *("--set", "state=all"),
            ],
            {
                "id": "flask-pulls",
                "type": "github_pr",
                "connection": {
                    "type": "github",
                    "repository": "pallets/flask",
                    "app": {"id": 7, "private_key": "${APP_KEY}"},
                },
                "include": ["src/"],
                "state": "all",
            },
        ),
        (
            ["slack", "--set", "channels=general,ops", "--set", "attachments=false"],
            {
                "id": "workspace-slack",
                "type": "slack",
                "connection": {"type": "slack", "token": "${SLACK_TOKEN}"},
                "channels": ["general", "ops"],
                "attachments": False,
            },
        ),
        (
            ["git_history", "--path", ".", "--set", "depth=20000", "--set", "chunking.max_tokens=128"],
            {
                "id": "home-history",
                "type": "git_history",
                "connection": {"type": "local", "path": "."},
                "depth": 20000,
                "chunking": {"max_tokens": 128},
            },
        ),
        (
            [
                *("files", "--path", ".", "--encoding", "windows-1252"),
                *("--set", "max_bytes=7", "--set", "embedding.max_concurrent=2"),
            ],
            {
                "id": "home-files",
                "type": "files",
                "connection": {"type": "local", "path": "."},
                "encoding": "windows-1252",
                "max_bytes": 7,
                "embedding": {"max_concurrent": 2},
            },
        ),
        (
            [
                *("table", "--path", "rows.csv", "--encoding", "gb18030"),
                *("--set", "connection.delimiter=;", "--set", "columns.text=title,body"),
            ],
            {
                "id": "rows",
                "type": "table",
                "connection": {
                    "type": "table_files",
                    "path": "rows.csv",
                    "encoding": "gb18030",
                    "delimiter": ";",
                },
                "columns": {"text": ["title", "body"]},
            },
        ),
    ],
)
def test_every_key_of_a_type_can_be_set(home: Path, run: Run, arguments: list[str], entry: dict[str, object]):
    added = run("sources", "add", *arguments, "--json").json["added"]
    is_service = "url" in added["connection"] or entry["type"] in ("slack", "github_pr")
    assert added == ({"attachments": True, **entry} if is_service else entry)
    listed = run("sources", "list", "--json").json["sources"]
    assert entry["id"] in [each["source"] for each in listed], "the file with it can be read"


def test_the_help_lists_the_keys_of_every_type(nowhere: Path, run: Run):
    keys = " ".join(run("sources", "add", "--help").out.partition("Keys of --set")[2].split())
    for name in SourceConfig.model_fields:
        assert name in keys or name in ("id", "type"), name
    assert "jira since, max_results, parts, labels, projects, jql, issue_types" in keys
    for name in ("files.extractor", "attachments.max_count", "columns.title", "code include, exclude"):
        assert name in keys


def test_checkouts_of_a_folder_are_discovered_tested_and_refreshed(home: Path, repository: Path, run: Run):
    config = home / "knowledge.yaml"
    connection = f"{{type: checkouts, path: '{repository.parent}'}}"
    entry = f"{{id: mine, connection: {connection}, sources: [{{type: code}}]}}"
    config.write_text(f"{config.read_text()}organisations: [{entry}]\n")
    name = f"mine-{repository.name}-code"
    assert "not listed yet" in run("sources", "list").out
    tested = run("sources", "test", "mine", "--json").json
    assert (tested["members"], tested["sources"][0]["documents"], tested["notes"]) == (1, 1, [])
    assert f"1 new ({repository.name})" in run("refresh").err
    assert name in run("sources", "list").out
    assert "exclude the member" in run("sources", "remove", name, "--yes", code=2).err
    assert run("status", "--json").json["organisations"][0]["members"] == 1

    config.write_text(config.read_text().replace("[{type: code}]", "[{type: code, members: [x*]}]"))
    assert "pattern 'x*' fits no member" in run("sources", "test", "mine", code=1).err
    assert "no organisation 'other'" in run("sources", "discover", "other", code=3).err
    (repository / ".git").rename(repository / "git")
    found = run("sources", "discover", "--json", code=1).json
    assert "lacks 1 of 1 known members" in found[0]["problem"]
    assert run("sources", "discover", "mine", "--accept-removals", "--json").json[0]["removed"]


@pytest.mark.parametrize(
    ("arguments", "id_", "connection"),
    [
        (
            "code --url github.com/acme --include src/ --token-env T",
            "acme",
            {"type": "github_organisation", "organisation": "acme", "token": "${T}"},
        ),
        (
            "github_pr --url https://gitlab.example.com/octo/core --set connection.subgroups=false",
            "core",
            {
                **{"type": "gitlab_group", "group": "octo/core", "url": "https://gitlab.example.com"},
                **{"token": "${GITLAB_TOKEN}", "subgroups": "false"},
            },
        ),
        ("slack", "slack", {"type": "slack_channels", "token": "${SLACK_TOKEN}"}),
        (
            "files --url s3://exports/2026",
            "2026",
            {"type": "s3_folders", "bucket": "exports", "prefix": "2026"},
        ),
        ("code --path .", "checkouts", {"type": "checkouts", "path": "."}),
        (
            "code --url s3://backups/nightly/*.zip",
            "nightly",
            {"type": "s3_archives", "bucket": "backups", "prefix": "nightly"},
        ),
    ],
)
def test_all_that_an_address_names_is_added_as_an_organisation(
    home: Path, run: Run, arguments: str, id_: str, connection: dict[str, object]
):
    added = run("sources", "add", *arguments.split(), "--all", "--json").json["added"]
    assert (added["id"], added["connection"]) == (id_, connection)
    assert run("sources", "list", "--json").json["organisations"][0]["organisation"] == id_
    assert (home / "knowledge.yaml").read_text().startswith("# made for a test\n")


def test_an_archive_is_added_tested_and_refreshed(home: Path, run: Run):
    (home / "exports").mkdir()
    archive = home / "exports" / "Engine 2.4.tar.gz"
    archive.write_bytes(pack("tar.gz", {"engine-2.4/run.py": b"def start_engine():\n    return 1\n"}))
    added = run("sources", "add", "code", "--path", str(archive), "--json").json["added"]
    assert added["id"] == "engine-2-4-code"
    assert added["connection"] == {"type": "archive_file", "path": "exports/Engine 2.4.tar.gz"}
    assert run("sources", "test", "engine-2-4-code", "--json").json["listed"] == 1
    run("refresh", "--source", "engine-2-4-code")
    assert "run.py" in run("search", "start_engine", "--repo", "Engine 2.4").out
    archive.write_bytes(archive.read_bytes()[:-9])
    assert "is damaged, or no ZIP or TAR archive" in run("refresh", "--source", "engine-2-4-code", code=1).err
    assert "run.py" in run("search", "start_engine").out

    of_bucket = run("sources", "add", "files", "--url", "s3://backups/nightly/a.tgz", "--json").json["added"]
    place = {"type": "s3", "bucket": "backups", "prefix": "nightly/a.tgz"}
    assert of_bucket == {
        "id": "a-files",
        "type": "files",
        "connection": {"type": "archive_file", "object": place},
    }
    failed = run("sources", "add", "git_history", "--path", str(archive), code=2).err
    assert "'git_history' is not read over connection.type 'archive_file'" in failed


@pytest.mark.slow
def test_archives_of_a_bucket_are_members_that_come_change_and_go(
    home: Path, run: Run, s3: S3Bucket, monkeypatch: pytest.MonkeyPatch
):
    def put(name: str, **functions: str) -> None:
        files = {
            f"{name}-1/{each}.py": f"def {each}():\n    return {text!r}\n".encode()
            for each, text in functions.items()
        }
        s3.create(f"nightly/{name}.zip", pack("zip", files))

    for variable, value in zip(("KEY_ID", "KEY_SECRET"), s3.server.reader, strict=True):
        monkeypatch.setenv(variable, value)
    put("core", start_core="cormorant", stop_core="dolphin")
    put("web", start_web="egret")
    put("docs", start_docs="flounder")
    s3.create("nightly/other.tar", pack("tar", {"a.py": b"a = 1\n"}))
    keys = (f"endpoint_url={s3.server.url}", "access_key_id=${KEY_ID}", "secret_access_key=${KEY_SECRET}")
    settings = [part for key in keys for part in ("--set", f"connection.{key}")]
    run("sources", "add", "code", "--all", "--url", f"s3://{s3.name}/nightly/*.zip", *settings)
    tested = run("sources", "test", "nightly", "--json").json
    assert (tested["listed"], tested["members"], tested["sources"][0]["documents"]) == (4, 3, 2)
    run("refresh")
    assert "start_core.py" in run("search", "cormorant", "--source", "nightly-core-code").out
    s3.requests.clear()
    run("refresh")
    assert all("list-type" in request.query for request in s3.requests), "nothing is read again"

    put("core", start_core="cormorant", stop_core="narwhal")
    put("api", start_api="gannet")
    s3.delete("nightly/docs.zip")
    said = run("refresh").err
    assert "1 new (nightly/api.zip), 1 gone (nightly/docs.zip)" in said
    assert "stop_core.py" in run("search", "narwhal").out and "start_api.py" in run("search", "gannet").out
    s3.create("nightly/web.zip", "no archive at all")
    assert "no ZIP or TAR archive" in run("refresh", "--source", "nightly-web-code", code=1).err
    assert "start_web.py" in run("search", "egret").out


def test_what_has_no_members_is_not_added(home: Path, run: Run):
    for arguments, code, says in (
        ("code --all --url github.com/acme/api", 2, "is no organisation: give github.com/NAME"),
        ("code --all", 2, "--all needs --url"),
        ("files --all --url github.com/acme", 2, "'files' is not read from members of"),
    ):
        assert says in run("sources", "add", *arguments.split(), code=code).err
    assert "organisations" not in (home / "knowledge.yaml").read_text()


def test_files_of_other_formats_are_counted_and_named(home: Path, tmp_path: Path, run: Run):
    folder = tmp_path / "papers"
    folder.mkdir()
    names = [*(f"{number}.msg" for number in range(9)), *(f"{number}.DOC" for number in range(3))]
    for name in [*names, ".hidden.doc", "left.out", "ignored.vsd"]:
        (folder / name).write_bytes(b"\0")
    (folder / ".gitignore").write_text("*.vsd\n")
    run("sources", "add", "files", "--path", str(folder), "--id", "papers", "--exclude", "*.out")
    told = run("sources", "test", "papers", code=1).err
    assert "lists no document, but 12 files of other formats (9 .msg, 3 .doc)" in told
    (folder / "a.txt").write_text("Some text.\n")
    assert "Not read: 12 files of other formats (9 .msg, 3 .doc).\n" in run("sources", "test", "papers").out
    told = run("sources", "test", "papers", "--json").json
    assert told["notes"] == {"files of other formats (9 .msg, 3 .doc)": 12}
    for _ in range(2):
        assert "files of other formats (9 .msg, 3 .doc) 12" in run("refresh", "--source", "papers").out
    (folder / "0.msg").unlink()
    assert "files of other formats (8 .msg, 3 .doc) 11" in run("refresh", "--source", "papers").out
    assert "papers: not read: 11 files of other formats (8 .msg, 3 .doc).\n" in run("status").out
    [papers] = [row for row in run("status", "--json").json["sources"] if row["source"] == "papers"]
    assert papers["left_out"] == {"files of other formats (8 .msg, 3 .doc)": 11}
    for name in names:
        (folder / name).unlink(missing_ok=True)
    run("refresh", "--source", "papers")
    assert "not read" not in run("status").out

from __future__ import annotations

import copy
import pickle
import re
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from knowledge_pipeline.config import file as config_file
from knowledge_pipeline.config.organisations import OrganisationMember
from knowledge_pipeline.config.settings import Settings, compute_settings_digests
from knowledge_pipeline.config.sources import resolve_trigger
from knowledge_pipeline.errors import ConfigError
from knowledge_pipeline.stages.context import list_scheduled_sources
from knowledge_pipeline_tests.thoroughness import examples

SECRET = "hunter" + "2-and-more"

VALID: dict[str, Any] = {
    "version": 1,
    "store": "tables",
    "embedding": {"provider": "local", "model": "all-MiniLM-L6-v2", "batch_size": 4},
    "query": {"fusion": "weighted", "vector_weight": 0.5, "rerank": {"types": ["code"]}},
    "releases": {"keep": 3},
    "sources": [
        {
            "id": "code",
            "type": "code",
            "connection": {"type": "local", "path": "."},
            "exclude": ["*.min.js"],
            "chunking": {"strategy": "ast_aware", "max_tokens": 256},
            "metadata": {"custom": ["package.module:function"], "tags": ["a"]},
            "access": {"visibility": "private", "tenant": "t", "principals": ["p"]},
        },
        {
            "id": "history",
            "type": "git_history",
            "connection": {"type": "git", "url": "https://example.com/a.git", "token": "${TOKEN}"},
            "since": "180 days",
            "refresh": {"trigger": "weekly"},
        },
    ],
}


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch):
    for name in ("CONFIG", "STORE", "EMBEDDING_MODE", "SYNC_MODE"):
        monkeypatch.delenv(f"KNOWLEDGE_{name}", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("TOKEN", SECRET)


@pytest.fixture
def write(tmp_path):
    def written(text: str) -> Path:
        path = tmp_path / "knowledge.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    return written


@pytest.fixture
def load(write):
    return lambda text: config_file.load_settings(write(text))


@pytest.fixture
def refusal(load):
    def message(text: str) -> str:
        with pytest.raises(ConfigError) as caught:
            load(text)
        assert SECRET not in str(caught.value)
        return str(caught.value)

    return message


def one_source(*lines: str, kind: str = "code", connection: str = "{type: local, path: .}") -> str:
    extra = "".join(f"    {line}\n" for line in lines)
    return f"sources:\n  - id: a\n    type: {kind}\n    connection: {connection}\n{extra}"


def dumped(values: object) -> str:
    with tempfile.TemporaryFile("w+", encoding="utf-8") as file:
        YAML(typ="safe", pure=True).dump(values, file)
        file.seek(0)
        return file.read()


# reading


def test_a_full_file_is_read(load):
    read = load(dumped(VALID))
    assert [source.id for source in read.sources] == ["code", "history"]
    assert read.sources[0].chunking.max_tokens == 256
    assert read.sources[1].connection.token.get_secret_value() == SECRET


@pytest.mark.parametrize(
    "text", ["", "# only a comment\n", "sources:\n", "sources: []\n", "\ufeffversion: 1\n"]
)
def test_a_file_that_sets_nothing_means_the_defaults(load, tmp_path, text):
    assert load(text) == Settings(store=tmp_path / ".knowledge")


def test_scalars_keep_the_text_that_was_written(load):
    connection = "{type: git, url: u, branch: 1.10}"
    source = load(
        one_source("since: 2024-01-31", "depth: 1_000", kind="git_history", connection=connection)
    ).sources[0]
    assert (source.since, source.connection.branch, source.depth) == ("2024-01-31", "1.10", 1000)


def test_windows_line_ends_are_read(load):
    assert load(one_source("depth: 5", kind="git_history").replace("\n", "\r\n")).sources[0].depth == 5


def test_anchors_and_merge_keys_are_followed(load):
    text = one_source("chunking: &limits {max_tokens: 99, granularity: class}")
    text += "  - id: b\n    type: code\n    connection: {type: local, path: .}\n"
    text += "    chunking:\n      <<: *limits\n      max_tokens: 77\n"
    chunking = load(text).sources[1].chunking
    assert (chunking.max_tokens, chunking.granularity) == (77, "class")


# paths


def test_relative_paths_are_relative_to_the_file(load, tmp_path):
    connection = "{type: local, path: ../elsewhere}"
    read = load("store: tables\n" + one_source("metadata: {coverage: cov.xml}", connection=connection))
    assert read.store == tmp_path / "tables"
    assert read.sources[0].connection.path == tmp_path.parent / "elsewhere"
    assert read.sources[0].metadata.coverage == tmp_path / "cov.xml"


def test_files_of_questions_are_relative_to_the_file_and_need_not_exist_yet(load, tmp_path):
    read = load("evaluation: {questions: [golden.yaml, sets/beir, /elsewhere/q.yaml]}\n")
    expected = (tmp_path / "golden.yaml", tmp_path / "sets" / "beir", Path("/elsewhere/q.yaml"))
    assert read.evaluation.questions == expected


def test_a_git_url_is_a_path_only_where_it_is_relative_and_exists(load, tmp_path):
    (tmp_path / "here").mkdir()
    urls = {url: f"{{type: git, url: {url}}}" for url in ("./here", "./not-here", "here", "git@host:a/b.git")}
    found = {url: load(one_source(connection=c)).sources[0].connection.url for url, c in urls.items()}
    assert found.pop("./here") == str(tmp_path / "here")
    assert all(url == read for url, read in found.items())


def test_the_home_folder_is_known(load, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert load("store: ~/tables\n").store == tmp_path / "home" / "tables"


REMOTE = """store: s3://bucket/team/x/
store_options:
  endpoint_url: https://s3.example.org
  access_key_id: ${TOKEN}
  secret_access_key: ${TOKEN}
"""


def test_a_store_may_be_the_url_of_a_bucket(load, tmp_path):
    store = load(REMOTE).store
    assert (store.url, store.folder) == ("s3://bucket/team/x", tmp_path / ".knowledge")
    assert store.storage_options == {
        "endpoint": "https://s3.example.org",
        "region": "us-east-1",
        "access_key_id": SECRET,
        "secret_access_key": SECRET,
    }
    assert SECRET not in f"{store} {store!r}"
    assert load("store: gs://bucket\nstore_folder: here\n").store.folder == tmp_path / "here"
    assert str(load("store: az://bucket/x\n").store) == "az://bucket/x"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "store: ftp://bucket/x\n",
            "1: store: found a URL that names no bucket; allowed: a folder, or s3://BUCKET",
        ),
        ("store: s3://\n", "1: store: found a URL that names no bucket"),
        ("store: s3://bucket/../x\n", "1: store: found a prefix with empty, relative or special parts"),
        ("store_options: {region: x}\n", "store_options and store_folder belong to a store at a URL"),
        ("store: gs://b1\nstore_options: {region: x}\n", "store_options apply to s3:// only"),
        ("store: s3://b1\nstore_options: {regoin: x}\n", "did you mean 'region'?"),
        ("store: s3://b1\nstore_options: {access_key_id: x}\n", "found a secret written in the file"),
        ('store: s3://b1\nstore_options: {access_key_id: "${TOKEN}"}\n', "without secret_access_key"),
        ("store: [x]\n", "1: store: found a list; allowed: a path"),
    ],
)
def test_what_is_wrong_with_a_store_is_said(refusal, text, told):
    assert told in refusal(text)


def test_the_environment_moves_the_store_into_a_bucket_and_back(load, monkeypatch, tmp_path):
    monkeypatch.setenv("KNOWLEDGE_STORE", "s3://other/y")
    assert load(REMOTE).store.url == "s3://other/y"
    assert load(REMOTE).store.storage_options["access_key_id"] == SECRET
    assert load("store: x\n").store.folder == tmp_path / "x"
    monkeypatch.setenv("KNOWLEDGE_STORE", "nonsense://y")
    with pytest.raises(ConfigError, match=r"^KNOWLEDGE_STORE: found a URL that names no bucket"):
        load(REMOTE)
    monkeypatch.setenv("KNOWLEDGE_STORE", str(tmp_path / "z"))
    assert load(REMOTE).store == tmp_path / "z"


def test_a_store_is_reached_as_the_environment_says(load, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9000")
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    assert load("store: s3://bucket\n").store.storage_options == {
        "endpoint": "http://127.0.0.1:9000",
        "region": "eu-west-1",
    }


def test_a_loop_of_links_is_said(refusal, tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    assert "knowledge.yaml:1: store: found a path that leads nowhere" in refusal("store: loop/x\n")


def test_a_loop_of_links_in_the_environment_is_said(refusal, monkeypatch, tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    monkeypatch.setenv("KNOWLEDGE_STORE", str(tmp_path / "loop" / "x"))
    assert refusal("") == "KNOWLEDGE_STORE names a path that leads nowhere: correct it or unset it"


# environment


def test_variables_are_replaced_and_escapes_are_not(load, monkeypatch):
    monkeypatch.setenv("LIMIT", "99")
    read = load(one_source("chunking:", "  max_tokens: ${LIMIT}", "exclude: ['a-${LIMIT}-$${LIMIT}-$x']"))
    assert read.sources[0].chunking.max_tokens == 99
    assert read.sources[0].exclude == ("a-99-${LIMIT}-$x",)


def test_a_replaced_value_is_not_replaced_again(load, monkeypatch):
    monkeypatch.setenv("OUTER", "${TOKEN}")
    assert load(one_source("exclude: ['${OUTER}']")).sources[0].exclude == ("${TOKEN}",)


def test_a_missing_variable_is_named_with_its_line(refusal):
    text = one_source("exclude:", "  - ${NOT_SET_ANYWHERE}")
    expected = "sources[0].exclude[0]: the environment variable NOT_SET_ANYWHERE is not set: set it"
    assert refusal(text) == f"knowledge.yaml:6: {expected}"


_JIRA = '{type: jira, url: "${JIRA_URL}", email: "${MAIL}", token: "${JIRA_TOKEN}"}'


def test_what_reads_no_source_needs_none_of_its_variables(load):
    settings = load("embedding: {api_key: '${KEY}'}\n" + one_source(kind="jira", connection=_JIRA))
    values = ("embedding.api_key", *(f"sources[0].connection.{key}" for key in ("url", "email", "token")))
    assert [line.split(": ")[1] for line in settings.unset_variables] == list(values)
    with pytest.raises(ConfigError, match=r"^sources\[0\].connection.url: .* JIRA_URL is not set: set it;"):
        settings.sources[0].require_variables()
    key = settings.embedding.api_key
    assert key and "KEY" not in f"{key!r} {settings!r}"
    with pytest.raises(ConfigError, match=r"^embedding.api_key: the environment variable KEY is not set"):
        key.get_secret_value()
    before = compute_settings_digests(settings, settings.sources[0])
    assert hash(settings.list_embeddings()[0]) and settings == pickle.loads(pickle.dumps(settings))
    assert compute_settings_digests(settings, settings.sources[0]) == before


@pytest.mark.parametrize(
    ("kind", "connection", "key", "value"),
    [
        ("files", "{type: s3, bucket: abc, anonymous: '${X}'}", "anonymous", "true"),
        ("markdown", "{type: github, repository: a/b, wiki: '${X}'}", "wiki", "true"),
        ("code", "{type: github, repository: a/b, app: {id: '${X}', private_key: '${KEY}'}}", "app.id", "7"),
        ("files", "{type: gcs, bucket: abc, credentials: '${X}'}", "credentials", "key.json"),
        ("code", "{type: local, path: '${X}'}", "path", "folder"),
        ("custom", "{type: custom, use: '${X}'}", "use", "package.module:read"),
        ("custom", "{type: custom, use: a.b:c, settings: {a: [1, '${X}']}}", "settings.a[1]", "2"),
        ("table", "{type: table_files, path: x.csv, encoding: '${X}'}", "encoding", "latin-1"),
        ("table", "{type: table_files, path: x.csv, delimiter: '${X}'}", "delimiter", ";"),
    ],
)
def test_a_variable_may_stand_in_every_value_of_a_connection(load, monkeypatch, kind, connection, key, value):
    lines = ["columns: {id: a, text: [b]}"] if kind == "table" else []
    text = one_source(*lines, kind=kind, connection=connection)
    monkeypatch.setenv("KEY", SECRET)
    (unset,) = load(text).sources
    assert unset.connection.location
    with pytest.raises(
        ConfigError, match=rf"^sources\[0\].connection.{re.escape(key)}: .* X is not set: set"
    ):
        unset.require_variables()
    monkeypatch.setenv("X", value)
    load(text).sources[0].require_variables()


@pytest.mark.parametrize(
    "connection",
    [
        "{type: checkouts, path: x, depth: '${X}'}",
        "{type: gitlab_group, group: x, token: '${KEY}', subgroups: '${X}'}",
        "{type: slack_channels, token: '${KEY}', private: '${X}'}",
        "{type: confluence_spaces, url: 'https://x.example', personal: '${X}'}",
    ],
)
def test_a_variable_may_stand_in_every_value_of_an_organisation(load, monkeypatch, connection):
    kind = {"{type: sl": "slack", "{type: co": "confluence"}.get(connection[:9], "code")
    text = f"organisations: [{{id: acme, connection: {connection}, sources: [{{type: {kind}}}]}}]"
    monkeypatch.setenv("KEY", SECRET)
    with pytest.raises(ConfigError, match=r"^organisations\[0\].connection.\w+: .* X is not set: set it$"):
        load(text).organisations[0].require_variables()
    monkeypatch.setenv("X", "1")
    load(text).organisations[0].require_variables()


def test_a_value_of_a_variable_that_is_no_encoding_is_not_shown(refusal, monkeypatch):
    monkeypatch.setenv("X", SECRET)
    message = refusal(one_source("encoding: '${X}'"))
    assert "sources[0].encoding: found an unknown encoding; allowed: a label such as windows-1252" in message
    assert SECRET not in message


def test_sources_of_an_organisation_lack_its_variables(load):
    connection = "{type: github_organisation, organisation: acme, token: '${NOT_SET}'}"
    organisation = f"organisations: [{{id: acme, connection: {connection}, sources: [{{type: code}}]}}]"
    (acme,) = load(organisation).organisations
    for source in (acme, *acme.build_sources(OrganisationMember("acme/web"))):
        with pytest.raises(ConfigError, match=r"organisations\[0\].connection.token: .* NOT_SET is not set"):
            source.require_variables()


@pytest.mark.parametrize(
    ("lines", "connection", "key"),
    [
        (["access: {visibility: private, tenant: '${X}', principals: [a]}"], "", "access.tenant"),
        (["access: {visibility: '${X}'}"], "", "access.visibility"),
        ([], "{type: '${X}', path: .}", "connection.type"),
        (
            [],
            "{type: github, repository: '${X}', app: {id: 1, private_key: '${Y}'}}",
            "connection.repository",
        ),
    ],
)
def test_what_decides_who_sees_or_reads_is_never_a_name_of_a_variable(refusal, lines, connection, key):
    text = one_source(*lines, connection=connection or "{type: local, path: .}")
    assert f"sources[0].{key}: the environment variable X is not set: set it" in refusal(text)


def test_a_variable_of_the_store_is_needed_at_once(refusal):
    assert "store: the environment variable X is not set" in refusal("store: '${X}/store'")
    assert "the environment variable X is not set" in refusal("${X}")


def test_a_brace_without_a_name_is_explained(refusal):
    assert "found '${' without a variable's name" in refusal(one_source("exclude: ['${not a name}']"))


def test_a_value_from_the_environment_is_never_shown(refusal):
    message = refusal(one_source("chunking:", "  strategy: ${TOKEN}"))
    assert "found '${TOKEN}'; allowed: fixed_size" in message


def test_the_store_of_the_environment_is_relative_to_the_working_directory(load, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path.parent)
    monkeypatch.setenv("KNOWLEDGE_STORE", "other")
    assert load("store: x\n").store == tmp_path.parent / "other"


def test_embedding_mode_keeps_what_fits_and_replaces_what_does_not(load, monkeypatch):
    text = "embedding: {provider: openai, model: m, dimensions: 8}\n" + one_source("embedding: {model: own}")
    monkeypatch.setenv("KNOWLEDGE_EMBEDDING_MODE", "local")
    read = load(text)
    assert read.embedding == Settings().embedding
    assert read.sources[0].embedding.model == "own"
    monkeypatch.setenv("KNOWLEDGE_EMBEDDING_MODE", "api")
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    read = load(text)
    assert (read.embedding.model, read.embedding.dimensions) == ("m", 8)
    switched = read.sources[0].embedding
    assert (switched.provider, switched.dimensions) == ("openai", 1536)
    assert switched.api_key.get_secret_value() == SECRET
    for provider in ("vertex", "ollama"):  # each is an endpoint
        read = load(f"embedding: {{provider: {provider}, model: m, dimensions: 8}}\n{one_source()}")
        assert (read.embedding.provider, read.embedding.dimensions) == (provider, 8)


def test_a_wrong_embedding_mode_is_refused(refusal, monkeypatch):
    monkeypatch.setenv("KNOWLEDGE_EMBEDDING_MODE", "cloud")
    assert "`local` or `api`" in refusal("")


@pytest.mark.parametrize(
    ("mode", "triggers"),
    [
        ("realtime", ["realtime"] * 4),
        ("scheduled", ["daily", "weekly", "hourly", "daily"]),
        ("manual", ["manual"] * 4),
    ],
)
def test_a_sync_mode_replaces_the_trigger_of_every_source(load, monkeypatch, mode, triggers):
    monkeypatch.setenv("KNOWLEDGE_SYNC_MODE", mode)
    entries = {"a": "", "b": "weekly", "c": "hourly", "d": "manual"}
    text = "sources:\n" + "".join(
        f"  - {{id: {id}, type: code, connection: {{type: local, path: .}}, "
        f"refresh: {{trigger: {trigger}, full_reindex: weekly}}}}\n"
        for id, trigger in entries.items()
    )
    read = load(text)
    assert [resolve_trigger(source) for source in read.sources] == triggers
    assert len(list_scheduled_sources(read, "weekly_reindex")) == (0 if mode == "manual" else 4)
    due = [source.id for source in list_scheduled_sources(read, "daily")]
    assert due == {"realtime": list("abcd"), "scheduled": ["a", "c", "d"], "manual": []}[mode]


def test_a_wrong_sync_mode_is_refused(refusal, monkeypatch):
    monkeypatch.setenv("KNOWLEDGE_SYNC_MODE", "hourly")
    assert refusal("") == (
        "KNOWLEDGE_SYNC_MODE must be `realtime`, `scheduled` or `manual`: correct it or unset it"
    )


# secrets


@pytest.mark.parametrize("token", [SECRET, "12345", f"x${{TOKEN}}{SECRET}", f"$${{{SECRET}}}"])
def test_a_secret_in_the_file_is_refused_unseen(refusal, token):
    message = refusal(one_source(connection=f"{{type: git, url: u, token: '{token}'}}"))
    assert token not in message
    assert message.startswith(
        "knowledge.yaml:4: sources[0].connection.token: found a secret written in the file"
    )


def test_an_api_key_in_the_file_is_refused(refusal):
    assert "embedding.api_key: found a secret" in refusal(f"embedding:\n  api_key: {SECRET}\n")


@pytest.mark.parametrize(
    "url",
    [
        f"https://user:{SECRET}@example.com/a.git",
        f"https://:{SECRET}@example.com/a.git",
        "https://user:${TOKEN}@example.com/a.git",
        f"https://{SECRET * 2}@example.com/a.git",
        f"ssh://user:{SECRET}@example.com/a",
        f"https://example.com/a?private_token={SECRET}",
    ],
)
def test_a_password_inside_a_url_is_refused_unseen(refusal, url):
    message = refusal(one_source(connection=f"{{type: git, url: '{url}'}}"))
    assert "sources[0].connection.url: found a password or token inside a URL" in message


@pytest.mark.parametrize(
    "url",
    [
        "git@github.com:a/b.git",
        "https://user@example.com/a.git",
        "https://h:8443/a@b",
        "ssh://git@h:22/a",
        "/a:b@c",
    ],
)
def test_urls_without_a_password_are_taken(load, url):
    assert load(one_source(connection=f"{{type: git, url: '{url}'}}")).sources[0].connection.url == url


@pytest.mark.parametrize(
    "text",
    [
        f"embedding: {{api_key: *{SECRET}}}",
        f"embedding: {{api_key: !{SECRET} x}}",
        f"embedding: {{api_key: !a!{SECRET} x}}",
        f"embedding: {{api_key:{SECRET}}}",
        f"embedding: api_key={SECRET}@x",
        f"embedding:\n  api_key: {SECRET}: x",
        f"embedding:\n  api_key: '{SECRET}",
        f"embedding:\n  api_key: [{SECRET}]",
        f"embedding:\n  api_key: {{{SECRET}: {SECRET}}}",
        f"embedding:\n  api_kye: {SECRET}",
        f"store: https://u:{SECRET}@h",
    ],
)
def test_no_message_shows_a_secret_however_it_is_mistyped(refusal, text):
    assert refusal(text)  # which looks for the secret


# what is wrong


def test_every_problem_is_listed_with_its_line(refusal):
    text = one_source("chunking:", "  strategy: sematic", "  max_tokens: 5", "acess: {}", kind="cod")
    assert refusal(text).splitlines() == [
        "knowledge.yaml:3: sources[0].type: found 'cod'; allowed: code, markdown, openapi, git_history, "
        "github_pr, github_issues, discussions, releases, snippets, jira, confluence, slack, files, archive, "
        "table, custom, push; did you mean 'code'?",
        "knowledge.yaml:6: sources[0].chunking.strategy: found 'sematic'; allowed: fixed_size, sentence, "
        "paragraph, semantic, ast_aware, endpoint, commit, conversation; did you mean 'semantic'?",
        "knowledge.yaml:7: sources[0].chunking.max_tokens: found '5'; allowed: a number of at least 16",
        "knowledge.yaml:8: sources[0].acess: found an unknown key; allowed: access, attachments, branches, "
        "channels, chunking, columns, comments, connection, content_type, content_types, custom_fields, "
        "depth, embedding, encoding, exclude, exclude_labels, files, id, include, issue_types, jql, labels, "
        "languages, max_bytes, max_results, metadata, namespace, parts, projects, refresh, retention, "
        "sanitize, since, spaces, state, statuses, type, upstream; "
        "did you mean 'access'?",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("- 1\n", "1: found a list; allowed: a mapping of keys to values"),
        ("version: 2\n", "1: version: found '2'; allowed: 1"),
        ("\nsources: x\n", "2: sources: found 'x'; allowed: a list"),
        ("a: 1\na: 2\n", "2: a: found the key twice, first on line 1; allowed: once"),
        ("releases:\n  keep: many\n", "2: releases.keep: found 'many'; allowed: a whole number"),
        (
            "query: {vector_weight: 2}\n",
            "1: query.vector_weight: found '2'; allowed: a number of at most 1.0",
        ),
        ("store: !!binary aGk=\n", "1: store: found a YAML tag; allowed: plain values without tags"),
        ('store: "a\\0b"\n', "1: store: found a character that cannot be stored; allowed: Unicode text"),
    ],
)
def test_mistakes_are_named(refusal, text, expected):
    assert f"knowledge.yaml:{expected}" in refusal(text).splitlines()


@pytest.mark.parametrize(
    ("text", "where", "remedy"),
    [
        ("a: [\n", "1: column 5", "correct the YAML there"),
        ("a: 1\n\tb: 2\n", "2: column 1", "use spaces, not tabs"),
        ("a: 1\n--- 2\n", "2: column 1", "correct the YAML there"),
        ("a: {b: ${C}}\n", "1: column 9", 'inside { } or [ ] write "${NAME}" with quotes'),
    ],
)
def test_syntax_errors_name_line_and_column(refusal, text, where, remedy):
    message = refusal(text)
    assert message.startswith(f"knowledge.yaml:{where}: ") and message.endswith(f"; {remedy}")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            one_source("patterns: [a]", "include: [b]"),
            "5: sources[0].patterns: found another word for",
        ),
        (
            one_source("refresh: on_comit"),
            "5: sources[0].refresh.trigger: found 'on_comit'; allowed:",
        ),
        (one_source("refresh: on_comit"), "manual; did you mean 'on_commit'?"),
        (one_source(kind="documentaton"), "push; did you mean 'documentation'?"),
        (one_source("include_lables: [a]"), "upstream; did you mean 'include_labels'?"),
        (
            one_source("retention: {session: 180d}"),
            "retention does not apply to type 'code'",
        ),
        (
            one_source("retention: {session: 180}", kind="archive"),
            "found '180'; allowed: a span such",
        ),
        ("retrieval: {top_k: 5}\n", "found an unknown key; allowed: default_k, max_context_tokens, rerank_k"),
        (
            "vector_index: {type: ivf_pq, sub_vectors: 5}\n"
            "embedding: {provider: openai, model: m, dimensions: 12}\n",
            "vector_index.sub_vectors (5) must divide the 12 dimensions of the vectors: use one of 1, 2, 3,",
        ),
        ("vector_index: {nprobes: 0}\n", "vector_index.nprobes: found '0'; allowed: a number of at least 1"),
        ("vector_index: {refine_factor: 101}\n", "found '101'; allowed: a number of at most 100"),
        ("vector_index: {type: hnsw}\n", "1: vector_index.type: found 'hnsw'; allowed: hnsw_sq, hnsw_pq,"),
    ],
)
def test_mistakes_in_words_of_other_systems_are_named_as_well(refusal, text, expected):
    assert expected in refusal(text)


@pytest.mark.parametrize("key", ["tune", "atachment", "exclude_label", "patern", "overlap", "zzz"])
def test_a_suggestion_is_what_was_meant_or_nothing(refusal, key):
    meant = {"exclude_label": "exclude_labels", "atachment": "attachments", "patern": "patterns"}
    suggestion = f"did you mean '{meant[key]}'?" if key in meant else "upstream"
    assert refusal(one_source(f"{key}: [a]")).endswith(suggestion)


def test_a_connection_without_a_type_names_the_types(refusal):
    message = refusal(one_source(connection="{path: .}"))
    assert "sources[0].connection.type: found nothing; required: one of local, git" in message


def test_keys_of_a_connection_are_checked_against_its_type(refusal):
    message = refusal(one_source(connection="{type: local, path: ., url: x}"))
    assert message == "knowledge.yaml:4: sources[0].connection.url: found an unknown key; allowed: path, type"


@pytest.mark.parametrize("wrong", ["kind: other", "types: [all]", "budget_s: soon"])
def test_one_mistake_about_reranking_is_one_line(refusal, wrong):
    (line,) = str(refusal(f"query: {{rerank: {{{wrong}}}}}\n")).splitlines()
    assert wrong.split(":")[0] in line and "factory" not in line


def test_the_second_of_two_equal_ids_is_named(refusal):
    text = one_source() + one_source().removeprefix("sources:\n")
    assert refusal(text) == (
        "knowledge.yaml:5: sources[1].id: found the id of the source on line 2; allowed: one that is new"
    )


# hostile files


@pytest.mark.slow
def test_an_alias_bomb_is_refused_quickly(refusal):
    lines = ["a0: &a0 [x,x,x,x,x,x,x,x,x,x]"]
    lines += [f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    assert "aliases expand to more than" in refusal("\n".join(lines))


@pytest.mark.sampled
@pytest.mark.parametrize("text", ["a: &a [*a]", "[" * 5000, "a: &a {b: *a}", "{a: " * 500])
def test_endless_and_deep_nesting_is_refused(refusal, text):
    assert "nested too deep" in refusal(text)


def test_a_huge_file_is_refused_unread(refusal):
    assert "at most" in refusal("#" * 3_000_000)


def test_a_file_that_is_not_utf8_names_the_line(tmp_path):
    path = tmp_path / "knowledge.yaml"
    path.write_bytes(b"version: 1\nstore: caf\xe9\n")
    with pytest.raises(ConfigError, match=r"knowledge.yaml:2: the file is not UTF-8"):
        config_file.load_settings(path)


def test_a_missing_file_says_how_to_make_one(tmp_path):
    with pytest.raises(ConfigError, match="run `knowledge init`"):
        config_file.load_settings(tmp_path / "knowledge.yaml")


def test_a_folder_in_place_of_the_file_is_said(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        config_file.load_settings(tmp_path)


def places(value: object, here: tuple = ()) -> list[tuple]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [here, *(place for key, child in inner for place in places(child, (*here, key)))]


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@st.composite
def mutated(draw) -> object:
    values: Any = copy.deepcopy(VALID)
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.sampled_from(places(values)))
        if not place:
            continue
        holder = values
        for part in place[:-1]:
            holder = holder[part]
        match draw(st.sampled_from(["replace", "rename", "remove"])):
            case "replace":
                holder[place[-1]] = draw(junk)
            case "rename" if isinstance(holder, dict):
                holder[draw(st.text(max_size=8))] = holder.pop(place[-1])
            case _:
                del holder[place[-1]]
    return values


def loads_or_names_lines(text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "knowledge.yaml"
        path.write_text(text, encoding="utf-8", errors="replace", newline="")
        try:
            assert isinstance(config_file.load_settings(path), Settings)
        except ConfigError as error:
            count = max(1, len(path.read_text(encoding="utf-8").splitlines()))
            for line in str(error).split("\n"):
                match = re.match(r"knowledge\.yaml:(\d+): ", line)
                assert match and 1 <= int(match[1]) <= count, line


@settings(max_examples=examples(150), deadline=None)
@given(mutated())
def test_any_mutation_is_read_or_refused_by_line(values):
    loads_or_names_lines(dumped(values))


@pytest.mark.slow
@settings(max_examples=examples(100), deadline=None)
@given(st.data())
def test_any_damage_to_the_text_is_read_or_refused_by_line(data):
    text = dumped(VALID)
    at = data.draw(st.integers(0, len(text)))
    cut = data.draw(st.integers(0, 30))
    put = data.draw(
        st.text(max_size=6)
        | st.sampled_from(["*a", "&a ", "<<: ", "!!x ", "? ", "- ", "\t", "|", "%YAML 9\n"])
    )
    loads_or_names_lines(text[:at] + put + text[at + cut :])


# finding


def test_the_nearest_file_above_is_found(tmp_path):
    (tmp_path / "knowledge.yaml").touch()
    (tmp_path / "a" / "b").mkdir(parents=True)
    assert config_file.find_config(tmp_path / "a" / "b") == tmp_path / "knowledge.yaml"
    (tmp_path / "a" / "knowledge.yaml").touch()
    assert config_file.find_config(tmp_path / "a" / "b") == tmp_path / "a" / "knowledge.yaml"


def test_the_environment_names_the_file(tmp_path, monkeypatch):
    (tmp_path / "knowledge.yaml").touch()
    (tmp_path / "other.yaml").touch()
    monkeypatch.setenv("KNOWLEDGE_CONFIG", str(tmp_path / "other.yaml"))
    assert config_file.find_config(tmp_path) == tmp_path / "other.yaml"
    monkeypatch.setenv("KNOWLEDGE_CONFIG", str(tmp_path / "none.yaml"))
    with pytest.raises(ConfigError, match="KNOWLEDGE_CONFIG names"):
        config_file.find_config(tmp_path)


def test_no_file_anywhere_says_how_to_make_one(tmp_path):
    with pytest.raises(ConfigError, match="run `knowledge init`"):
        config_file.find_config(tmp_path)


def test_the_file_of_this_repository_is_valid():
    root = Path(__file__).parents[2]
    assert [source.id for source in config_file.load_settings(root / "knowledge.yaml").sources] == [
        "code",
        "docs",
        "history",
    ]


def examples() -> list[str]:
    page = Path(__file__).parents[2] / "docs" / "configuration.md"
    return re.findall(r"^```yaml\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("example", examples())
def test_every_example_of_the_reference_is_valid(load, monkeypatch, example):
    monkeypatch.setenv("SHOP_TOKEN", SECRET)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", SECRET)
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    fragment = example.startswith(" ")
    read = load(one_source() + example if fragment else example)
    assert read != load(one_source() if fragment else "")

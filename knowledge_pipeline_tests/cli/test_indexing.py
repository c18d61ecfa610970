"""`init`, `index`, `refresh`, `reindex` on real folders and repositories."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from knowledge_pipeline.cli.refresh import describe_words
from knowledge_pipeline.cli.source_entries import RepositoryLocation
from knowledge_pipeline.errors import ConfigError
from knowledge_pipeline.stages import pipeline as early_release
from knowledge_pipeline_tests.cli.conftest import CODE, Run, commit, git, list_imports
from knowledge_pipeline_tests.fakes.openai_server import Fault, OpenAIServer


def ids(listed: dict) -> list[str]:
    return [source["source"] for source in listed["sources"]]


def test_init_declares_what_a_folder_holds_and_says_what_is_next(repository: Path, nowhere: Path, run: Run):
    ran = run("init", str(repository))
    assert "code" in ran.out and "docs" in ran.out and "history" in ran.out
    assert f"Next: knowledge index --config {repository}/knowledge.yaml" in ran.out
    assert "path: .\n" in (repository / "knowledge.yaml").read_text()


def test_init_does_not_overwrite_a_file(home: Path, run: Run):
    before = (home / "knowledge.yaml").read_text()
    ran = run("init", code=2)
    assert "exists already" in ran.err
    assert (home / "knowledge.yaml").read_text() == before


def test_init_as_json_names_file_and_sources(repository: Path, nowhere: Path, run: Run):
    ran = run("init", str(repository), "--config", str(nowhere / "other.yaml"), "--json")
    assert ran.json["config"] == str(nowhere / "other.yaml")
    assert [source["type"] for source in ran.json["sources"]] == ["code", "markdown", "git_history"]


def test_index_repo_declares_fitting_sources_and_indexes_them(home: Path, repository: Path, run: Run):
    ran = run("index", "--repo", str(repository))
    assert "SOURCE" in ran.out and "Release 1 is live" in ran.out
    assert "Added shop-code, shop-docs, shop-history to" in ran.err
    text = (home / "knowledge.yaml").read_text()
    assert text.startswith("# made for a test\n")
    assert "path: ../shop" in text.replace('"', "")


def test_index_repo_again_reuses_its_sources_and_does_nothing(indexed: Path, shop: Path, run: Run):
    before = (indexed / "knowledge.yaml").read_text()
    run("index", "--repo", str(shop))  # the files of a copied folder are other files
    again = run("index", "--repo", str(shop), "--json").json
    assert again["declared"] == []
    assert ids(again) == ["shop-code", "shop-docs", "shop-history"]
    assert [source["added"] + source["changed"] for source in again["sources"]] == [0, 0, 0]
    assert again["release"] == {
        **{"release": 1, "new": False, "notes": []},
        "rows": again["release"]["rows"],
    }
    assert (indexed / "knowledge.yaml").read_text() == before


def test_another_repository_of_the_same_name_gets_other_ids(indexed: Path, tmp_path: Path, run: Run):
    other = tmp_path / "elsewhere" / "shop"
    other.mkdir(parents=True)
    (other / "main.py").write_text(CODE)
    assert run("index", "--repo", str(other), "--json").json["declared"] == ["shop-code-2"]


def test_index_of_a_url_reads_the_commits_not_the_folder(home: Path, repository: Path, run: Run):
    (repository / "src" / "draft.py").write_text("draft = 1\n")
    listed = run("index", "--repo", f"file://{repository}", "--json").json
    assert listed["declared"] == ["shop-code", "shop-docs", "shop-history"]
    assert {source["source"]: source["seen"] for source in listed["sources"]}["shop-code"] == 1


def test_index_of_a_branch_reads_that_branch(home: Path, repository: Path, run: Run):
    git(repository, "checkout", "--quiet", "-b", "next")
    (repository / "src" / "more.py").write_text("def more():\n    return 1\n")
    commit(repository, "More")
    git(repository, "checkout", "--quiet", "main")
    listed = run("index", "--repo", str(repository), "--branch", "next", "--json").json
    assert {source["source"]: source["seen"] for source in listed["sources"]}["shop-code"] == 2
    assert "branch: next" in (home / "knowledge.yaml").read_text()


def test_index_repo_without_a_file_writes_one_here(nowhere: Path, tmp_path: Path, run: Run):
    ran = run("index", "--repo", f"file://{tmp_path}/gone", code=1)
    assert "gone" in ran.err
    assert not (nowhere / "knowledge.yaml").exists()


def test_a_repository_that_does_not_answer_leaves_the_file_as_it_was(home: Path, run: Run):
    before = (home / "knowledge.yaml").read_text()
    run("index", "--repo", "file:///no/such/repository", code=1)
    assert (home / "knowledge.yaml").read_text() == before


def test_index_of_neither_folder_nor_address_is_wrong_usage(home: Path, run: Run):
    assert "neither a folder nor the address" in run("index", "--repo", "no/such/folder", code=2).err


def test_index_of_an_empty_folder_is_refused(home: Path, tmp_path: Path, run: Run):
    (tmp_path / "empty").mkdir()
    assert "nothing to index" in run("index", "--repo", str(tmp_path / "empty"), code=2).err


def test_index_without_sources_says_how_to_declare_one(home: Path, run: Run):
    assert "knowledge index --repo" in run("index", code=2).err


def test_a_branch_without_a_repository_is_wrong_usage(home: Path, run: Run):
    assert "--repo" in run("index", "--branch", "main", code=2).err


def test_index_words_answers_by_words_and_the_next_refresh_adds_the_vectors_alone(
    home: Path, repository: Path, run: Run, embedding_server: OpenAIServer
):
    before = len(embedding_server.texts)
    (repository / "docs" / "guide.md").write_text(
        "# Signed sessions\n\nHow sessions are signed with a key.\n"
    )
    ran = run("index", "--repo", str(repository), "--words")
    assert len(embedding_server.texts) == before, "no text is embedded"
    assert "have no vector yet: words find them, and `knowledge refresh` goes on" in ran.out
    assert 'Try:\n  knowledge search "Signed sessions"' in ran.out
    found = run("search", "how are sessions signed with a key", "--json").json
    assert {result["citation"]["path"] for result in found["results"]} >= {"docs/guide.md", "src/sessions.py"}
    assert found["embedded_share"] == 0
    again = run("index", "--words").out
    assert "Nothing changed: release 1 stays live" in again and "have no vector yet" in again
    rest = run("refresh", "--json").json
    assert [source["added"] + source["changed"] for source in rest["sources"]] == [0, 0, 0]
    assert all(source["embedded"] == source["chunks"] > 0 for source in rest["sources"])
    assert run("search", "how are sessions signed with a key", "--json").json["embedded_share"] == 1
    assert "without" not in run("graph", "usages", "sign_session").err


def test_index_words_as_json_counts_no_vector(home: Path, repository: Path, run: Run):
    ran = run("index", "--repo", str(repository), "--words", "--json")
    assert ran.err == ""
    assert [source["embedded"] for source in ran.json["sources"]] == [0, 0, 0]
    assert ran.json["release"]["new"]


def test_index_words_is_not_recorded_in_dagster(home: Path, run: Run):
    assert "give one of them" in run("index", "--words", "--dagster", code=2).err


def test_index_says_when_words_can_be_searched_and_how_long_the_vectors_take(
    home: Path, repository: Path, run: Run, monkeypatch: pytest.MonkeyPatch
):
    (home / "knowledge.yaml").write_text("version: 1\nembedding: {model: static-v1}\nsources: []\n")
    monkeypatch.setattr(early_release, "MIN_LOCAL_TEXTS", 0)
    monkeypatch.setattr(early_release, "MAX_WAIT_S", 0.0)
    told = run("index", "--repo", str(repository)).err
    assert "by its words now." in told
    assert 'Try, in another terminal:\n  knowledge search "a question, or a name"\n' in told
    assert "The vectors take about 10 s." in told
    assert "by its words now" not in run("refresh").err


@pytest.mark.parametrize(
    ("seconds", "words"), [(1, "10 s"), (44, "40 s"), (90, "2 min"), (640, "11 min"), (9000, "2 h")]
)
def test_an_estimate_is_as_exact_as_it_can_be(seconds: float, words: str):
    assert describe_words(seconds).endswith(f"\nThe vectors take about {words}.")


def test_without_an_estimate_none_is_given():
    assert describe_words(None) == "Every source can be searched by its words now."


def test_refresh_takes_in_what_changed_and_nothing_else(indexed: Path, shop: Path, run: Run):
    run("refresh")  # the files of a copied folder are other files
    (shop / "src" / "new.py").write_text("def brand_new():\n    return 7\n")
    (shop / "docs" / "guide.md").unlink()
    (shop / "docs" / "other.md").write_text("# Other\n\nText.\n")
    sources = {each["source"]: each for each in run("refresh", "--json").json["sources"]}
    assert (sources["shop-code"]["added"], sources["shop-code"]["unchanged"]) == (1, 1)
    assert (sources["shop-docs"]["added"], sources["shop-docs"]["removed"]) == (1, 1)
    assert sources["shop-history"]["added"] == 0


def test_lancedb_is_imported_for_a_first_index_alone(
    indexed: Path, shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def run_and_list_imports(*arguments: str) -> set[str]:
        program = [sys.executable, "-X", "importtime", "-m", "knowledge_pipeline.cli"]
        return list_imports(subprocess.run([*program, *arguments], capture_output=True, text=True).stderr)

    (shop / "src" / "sessions.py").write_text(CODE.replace("payload", "content"))
    commit(shop, "Name the content")
    edit = run_and_list_imports("refresh")
    shutil.copytree(shop, tmp_path / "other")
    new_source, status = run_and_list_imports("index", "--repo", "../other"), run_and_list_imports("status")
    assert "lance" in edit & new_source and "lancedb" not in edit | new_source | status
    monkeypatch.setenv("KNOWLEDGE_STORE", str(tmp_path / "another"))
    assert "lancedb" in run_and_list_imports("refresh")


def test_refresh_of_one_source_leaves_the_others(indexed: Path, run: Run):
    assert ids(run("refresh", "--source", "shop-docs", "--json").json) == ["shop-docs"]


def test_refresh_of_an_unknown_source_names_the_known_ones(indexed: Path, run: Run):
    assert "shop-code" in run("refresh", "--source", "nope", code=3).err


def test_a_failing_source_is_named_and_the_others_are_done(
    indexed: Path, shop: Path, run: Run, tmp_path: Path
):
    (shop / "src" / "new.py").write_text("def brand_new():\n    return 7\n")
    (tmp_path / "brief").mkdir()
    run("sources", "add", "code", "--path", str(tmp_path / "brief"), "--id", "brief")
    (tmp_path / "brief").rmdir()
    failed = run("refresh", "--json", code=1).json
    assert [each["source"] for each in failed["failures"]] == ["brief"]
    assert failed["failures"][0]["temporary"] is False
    assert failed["release"]["release"] == 2
    told = run("refresh", code=1)
    assert "error: brief: " in told.err and "shop-code" in told.out


def test_a_temporary_failure_has_a_code_of_its_own(
    home: Path, repository: Path, run: Run, embedding_server: OpenAIServer
):
    text = (home / "knowledge.yaml").read_text()
    (home / "knowledge.yaml").write_text(text.replace("dimensions:", "max_tries: 1\n  dimensions:"))
    embedding_server.fail_next(*[Fault(503)] * 3)
    failed = run("index", "--repo", str(repository), "--json", code=4).json
    kinds = {each["source"]: each["kind"] for each in failed["failures"]}
    assert kinds["shop-code"] == kinds["shop-docs"] == "EmbeddingUnavailable"
    assert run("refresh", "--json").json["failures"] == []


def test_an_emptied_source_is_refused_unless_it_is_believed(indexed: Path, shop: Path, run: Run):
    (shop / "docs" / "guide.md").unlink()
    assert "--allow-empty" in run("refresh", "--source", "shop-docs", code=1).err
    done = run("refresh", "--source", "shop-docs", "--allow-empty", "--json").json
    assert done["sources"][0]["removed"] == 1


def test_skipped_documents_are_counted_by_reason_and_listed_when_asked(indexed: Path, shop: Path, run: Run):
    for number in range(3):
        (shop / "src" / f"binary{number}.py").write_bytes(b"\x00\x01\x02" * 50)
    told = run("refresh", "--source", "shop-code")
    assert "shop-code: skipped 3: " in told.out
    every = run("refresh", "--source", "shop-code", "--verbose")
    assert [f"src/binary{number}.py" in every.out for number in range(3)] == [True, True, True]


@pytest.mark.slow
def test_reindex_makes_everything_anew_without_new_vectors(
    indexed: Path, run: Run, embedding_server: OpenAIServer
):
    before = len(embedding_server.texts)
    done = run("reindex", "--full", "--json").json
    assert all(source["changed"] for source in done["sources"])
    assert len(embedding_server.texts) == before
    by_type = run("reindex", "--source", "documentation", "--json").json
    assert [source["source"] for source in by_type["sources"]] == ["shop-docs"]
    again = run("reindex", "--reembed", "--source", "shop-docs", "--json").json
    assert [source["embedded"] for source in again["sources"]] == [1]
    assert len(embedding_server.texts) == before + 1


def test_quiet_says_nothing_beside_the_result(indexed: Path, run: Run):
    assert run("refresh", "--quiet").err == ""


def test_the_config_may_be_named_before_and_after_the_command(indexed: Path, run: Run, tmp_path: Path):
    config = str(indexed / "knowledge.yaml")
    elsewhere = run("--config", config, "sources", "list", "--json").json
    assert elsewhere == run("sources", "list", "--config", config, "--json").json
    assert run("sources", "list", "--config", str(indexed), "--json").json == elsewhere
    assert "correct --config" in run("status", "--config", str(tmp_path / "no.yaml"), code=2).err


@pytest.mark.parametrize(
    ("text", "url", "branch"),
    [
        ("github.com/pallets/flask", "https://github.com/pallets/flask", None),
        ("pallets/flask", "https://github.com/pallets/flask", None),
        ("pallets/flask@3.0.x", "https://github.com/pallets/flask", "3.0.x"),
        ("example.org/group/sub/repo@feature/a", "https://example.org/group/sub/repo", "feature/a"),
        ("https://github.com/pallets/flask", "https://github.com/pallets/flask", None),
        ("git@github.com:pallets/flask.git", "git@github.com:pallets/flask.git", None),
    ],
)
def test_a_repository_is_named_as_people_write_it(text: str, url: str, branch: str | None):
    repository = RepositoryLocation.parse(text)
    repository.require_valid()
    assert (repository.url, repository.branch, repository.is_local) == (url, branch, False)


def test_a_folder_that_is_there_goes_before_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "pallets" / "flask").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert RepositoryLocation.parse("pallets/flask").is_local
    assert not RepositoryLocation.parse("pallets/click").is_local
    with pytest.raises(ConfigError, match="a branch each"):
        RepositoryLocation.parse("pallets/click@main", "dev")

"""`search`, `similar`, `get`, `debug` against a real index."""

from __future__ import annotations

import re
import subprocess
import sys
from decimal import Decimal
from math import exp
from pathlib import Path

import pytest

from knowledge_pipeline_tests.cli.conftest import CODE, Run, list_imports


def paths(answer: dict) -> list[str]:
    return [result["citation"]["path"] for result in answer["results"]]


def test_search_shows_place_score_symbol_and_content(indexed: Path, run: Run):
    ran = run("search", "sign the payload of a session", "--limit", "3")
    assert "src/sessions.py:" in ran.out and "[shop-code]" in ran.out
    assert "def sign_session(key, payload):" in ran.out


def test_search_as_json_is_the_answer(indexed: Path, run: Run):
    answer = run("search", "retry request", "--type", "code", "--json").json
    assert answer["release"] == 1 and answer["degraded"] == []
    assert set(paths(answer)) == {"src/sessions.py"}
    assert "explain" not in answer


def test_a_search_imports_nothing_that_only_other_commands_need(indexed: Path):
    command = [sys.executable, "-X", "importtime", "-m", "knowledge_pipeline.cli", "search", "sign a session"]
    ran = subprocess.run(
        [*command, "--mode", "words"], capture_output=True, text=True, check=True, cwd=indexed
    )
    imported = list_imports(ran.stderr)
    assert "lance" in imported and "src/sessions.py" in ran.stdout
    others = {"requests", "yaml", "duckdb", "dagster", "lancedb", "tree_sitter", "pathspec"}
    ours = {
        *("connectors.registry", "serve.service", "stages.pipeline", "extensions.federation", "query.status"),
        *("llm.budgets", "context.build"),
    }
    assert imported & (others | {f"knowledge_pipeline.{name}" for name in ours}) == set()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--language", "python"], {"src/sessions.py"}),
        (["--path", "docs/**", "--source-type", "markdown"], {"docs/guide.md"}),
        (["--kind", "class"], set()),
        (["--source", "shop-docs"], {"docs/guide.md"}),
        (["--source-type", "markdown", "--source-type", "code"], {"docs/guide.md", "src/sessions.py"}),
        (["--repo", "shop", "--language", "markdown"], {"docs/guide.md"}),
        (["--since", "30d", "--source-type", "code"], {"src/sessions.py"}),
        (["--until", "2001"], set()),
        (["--author", "nobody"], set()),
        (["--tag", "none"], set()),
        (["--branch", "none"], set()),
        (["--title", "guide"], {"docs/guide.md"}),
        (["--section", "nowhere"], set()),
        (["--class", "Nobody"], set()),
        (["--import", "hmac"], set()),
        (["--namespace", "none"], set()),
        (["--created-until", "2001"], set()),
    ],
)
def test_options_narrow_a_search(indexed: Path, run: Run, options: list[str], expected: set[str]):
    assert set(paths(run("search", "session", "--json", "--limit", "50", *options).json)) == expected


def test_a_search_by_words_alone_needs_no_model(indexed: Path, run: Run, monkeypatch: pytest.MonkeyPatch):
    file = indexed / "knowledge.yaml"
    file.write_text(file.read_text().replace("base_url: http://127.0.0.1", "base_url: http://127.0.0.2"))
    found = run("search", "sign_session", "--mode", "words", "--json").json
    assert paths(found) and found["degraded"] == []
    assert run("search", "sign_session", "--mode", "vectors", "--json").json["degraded"] == ["vector"]
    assert paths(run("similar", "sign_session", "--mode", "words", "--json").json)
    assert "'lexical'" in run("search", "x", "--mode", "lexical", code=2).err


def test_sources_of_a_namespace_are_found_together_after_the_next_refresh(indexed: Path, run: Run):
    file = indexed / "knowledge.yaml"
    file.write_text(file.read_text().replace("type: markdown", "type: markdown\n    namespace: handbook"))
    assert paths(run("search", "session", "--namespace", "handbook", "--json").json) == []
    refreshed = run("refresh", "--json").json
    assert sum(each["tokens"] for each in refreshed["sources"]) == 0, "nothing is embedded again"
    assert set(paths(run("search", "session", "--namespace", "handbook", "--json").json)) == {"docs/guide.md"}
    assert set(paths(run("search", "session namespace:handbook", "--json").json)) == {"docs/guide.md"}


def test_historical_search_finds_the_commit_and_its_author(indexed: Path, run: Run):
    answer = run("search", "sign sessions", "--type", "historical", "--author", "ann", "--json").json
    assert [result["metadata"]["source_type"] for result in answer["results"]] == ["git_history"]


def test_nothing_found_is_said_and_is_no_failure(indexed: Path, run: Run):
    assert run("search", "anything", "--path", "no/such").out == "Nothing was found.\n"


def test_explain_shows_ranks_scores_and_times(indexed: Path, run: Run):
    ran = run("search", "retry_request", "--explain", "--lines", "0", "--limit", "1")
    assert "words #1" in ran.out and "vector #" in ran.out and "symbol +" in ran.out
    assert "retrieve" in ran.out and "def retry_request" not in ran.out
    shown = re.search(r"log-odds: (.*) = ([+-][\d.]+)", ran.out)
    addends = [Decimal(number) for number in re.findall(r"[+-]\d+\.\d\d", shown[1])]
    assert len(addends) > 2 and sum(addends) == Decimal(shown[2])
    score = float(re.search(r":\d+-\d+  (0\.\d+)", ran.out)[1])
    assert 1 / (1 + exp(-float(shown[2]))) == pytest.approx(score, abs=0.01)
    explained = run("search", "retry_request", "--explain", "--json").json
    assert explained["results"][0]["explain"]["bm25_rank"] == 1


def test_long_content_is_bounded_and_says_how_to_see_the_rest(indexed: Path, run: Run):
    ran = run("search", "retry_request", "--limit", "1", "--lines", "2")
    assert "more lines: knowledge get " in ran.out
    assert "return False" not in ran.out


def test_get_shows_a_chunk_and_a_document_whole(indexed: Path, run: Run):
    best = run("search", "retry_request", "--type", "code", "--json").json["results"][0]
    assert run("get", best["id"], "--json").json["results"][0]["content"] == best["content"]
    whole = run("get", "shop-code:src/sessions.py").out
    assert "def sign_session" in whole and "return False" in whole


def test_blame_says_who_changed_the_lines_of_what_is_shown(indexed: Path, run: Run):
    ran = run("search", "sign the payload of a session", "--limit", "1", "--blame")
    assert " by Ann, " in ran.out and ": Sign sessions (" in ran.out
    found = run("get", "shop-code:src/sessions.py", "--blame", "--json").json["results"][0]
    assert found["blame"][0]["author"] == "Ann" and found["blame"][0]["message"] == "Sign sessions"
    refused = run("search", "--file", "src/sessions.py", "--blame", code=2)
    assert "knowledge get ID --blame" in refused.err


def test_get_traces_what_made_a_chunk(indexed: Path, run: Run):
    ran = run("get", "shop-code:src/sessions.py", "--trace")
    assert "first kept release with it" in ran.out and "command line" in ran.out
    traced = run("get", "shop-code:src/sessions.py", "--trace", "--json").json
    assert traced["first_release"] == 1 and traced["stages"][0]["stage"] == "snapshot"
    assert "there is no chunk" in run("get", "shop-code:nothing.py", "--trace", code=3).err


def test_get_of_what_does_not_exist_has_a_code_of_its_own(indexed: Path, run: Run):
    assert "no chunk or document 'nope'" in run("get", "nope", code=3).err
    assert run("get", "nope", "--json", code=3).error["kind"] == "NotFound"


def test_similar_takes_a_text_a_file_or_stdin(indexed: Path, shop: Path, run: Run):
    by_text = run("similar", "def sign_session(key, payload)", "--language", "python", "--json").json
    assert paths(by_text)[0] == "src/sessions.py"
    by_stdin = run(
        "similar", "-", "--language", "python", "--json", stdin="def sign_session(key, payload)"
    ).json
    assert paths(by_stdin) == paths(by_text)
    other = shop / "src" / "copy.py"
    other.write_text(CODE)
    not_indexed = run("similar", "--file", str(other), "--json").json
    assert "src/sessions.py" in paths(not_indexed)


def test_what_is_similar_to_an_indexed_file_is_not_the_file_itself(indexed: Path, shop: Path, run: Run):
    (shop / "src" / "other.py").write_text(CODE.replace("session", "cookie"))
    run("refresh")
    by_name = run("search", "--file", "src/sessions.py", "--json").json
    assert set(paths(by_name)) == {"src/other.py"}
    assert paths(run("similar", "--file", f"{shop}/src/sessions.py", "--json").json) == paths(by_name)


def test_a_file_that_lies_in_a_source_s_folder_is_that_source_s(indexed: Path, shop: Path, run: Run):
    twin = shop.parent / "twin"
    (twin / "src").mkdir(parents=True)
    (twin / "src" / "sessions.py").write_text(CODE.replace("session", "cookie"))
    run("index", "--repo", str(twin))
    assert "several files" in run("similar", "--file", "src/sessions.py", code=2).err
    found = run("similar", "--file", str(twin / "src" / "sessions.py"), "--json").json
    assert {result["citation"]["source"] for result in found["results"]} == {"shop-code"}


def test_without_vectors_a_search_goes_on_and_says_so(indexed: Path, run: Run):
    config = indexed / "knowledge.yaml"
    config.write_text(config.read_text().replace("dimensions: 32", "dimensions: 33"))
    told = run("search", "retry_request", "--limit", "1")
    assert "searched by words alone" in told.err and "src/sessions.py" in told.out
    assert "hashed-words" in run("search", "retry_request", "--explain").err
    assert run("search", "retry_request", "--json").json["degraded"] == ["vector"]


def test_similar_to_a_file_that_is_nowhere_is_not_found(indexed: Path, run: Run):
    assert "no/such.py" in run("similar", "--file", "no/such.py", code=3).err


def test_debug_shows_the_question_the_steps_and_the_candidates(indexed: Path, run: Run):
    ran = run("debug", "--query", "retry_request lang:python", "--explain")
    assert "retry_request" in ran.out and "languages: python" in ran.out
    assert "RETRIEVE" not in ran.out and "retrieve" in ran.out
    assert "COSINE" in ran.out and "BM25" in ran.out
    assert run("debug", "--query", "retry", "--json").json["explain"]["question"]["text"] == "retry"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["search"], "give a QUERY, or --file"),
        (["search", "x", "--type", "fuzzy"], "--type"),
        (["search", "x", "--file", "a.py", "--type", "code"], "omit --type code"),
        (["search", "x", "--limit", "0"], "--limit"),
        (["search", "x", "--limit", "many"], "--limit"),
        (["search", "   "], "the question is empty"),
        (["search", "x", "--since", "someday"], "since"),
        (["search", "x", "--until", '"'], "until"),
        (["search", "x", "--created-since", "someday"], "created_since"),
        (["search", "x", "--source-type", "jiras"], "--source-type 'jiras'"),
        (["similar"], "give either TEXT or --file"),
        (["similar", "x", "--file", "y"], "give either TEXT or --file"),
        (["get"], "ID"),
        (["debug"], "--query"),
    ],
)
def test_a_question_that_makes_no_sense_is_wrong_usage(
    indexed: Path, run: Run, arguments: list[str], sentence: str
):
    assert sentence in run(*arguments, code=2).err
    assert sentence in run(*arguments, "--json", code=2).error["error"]


def test_escape_sequences_and_markup_in_content_are_shown_and_not_obeyed(indexed: Path, shop: Path, run: Run):
    (shop / "docs" / "evil.md").write_text(
        "# Evil \x1b]0;owned\x07title\n\nClear \x1b[2J and \x9b31m, [bold red]loud[/] :bomb: \u202e text.\n"
    )
    run("refresh")
    shown = run("search", "evil loud", "--limit", "1").out
    assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(shown)
    assert r"\x1b[2J" in shown and "[bold red]loud[/] :bomb:" in shown
    printed = run("search", "evil loud", "--limit", "1", "--json")
    assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(printed.out)
    assert "\x1b[2J and \x9b31m" in printed.json["results"][0]["content"]


def test_a_search_before_any_release_says_what_to_do(home: Path, run: Run):
    assert "knowledge index" in run("search", "anything", code=3).err

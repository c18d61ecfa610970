"""`context` against a real index."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from knowledge_pipeline_tests.cli.conftest import CODE, Run, git


def paths(context: dict) -> list[str]:
    return [passage["citation"]["path"] for passage in context["excerpts"]]


@pytest.mark.slow
def test_the_prompt_is_all_of_stdout_and_the_searches_are_told_beside_it(indexed: Path, run: Run):
    ran = run("context", "retry a request", "--task", "issue_resolution")
    assert ran.out.startswith("You resolve an issue")
    assert "\n## Task\n\nretry a request\n" in ran.out and "[1] src/sessions.py, lines " in ran.out
    assert "    for _ in range(times):\n        if send():\n            return True" in ran.out
    told = ran.err.splitlines()
    assert told[0].startswith("semantic: ")
    assert told[1].endswith("0 chunks left out") and "of 4,000 tokens (estimate)" in told[1]
    assert run("context", "retry a request", "--quiet").err == ""


def test_as_json_it_is_everything_and_nothing_else(indexed: Path, run: Run):
    ran = run("context", "retry a request", "--json", "--max-tokens", "400")
    assert ran.err == ""
    assert ran.json["tokens"] <= ran.json["max_tokens"] == 400
    assert [run["name"] for run in ran.json["searches"]] == ["semantic"]
    assert "src/sessions.py" in paths(ran.json)


def test_the_task_and_the_snippet_come_from_stdin(indexed: Path, run: Run):
    piped = run("context", "-", "--json", stdin="retry a request\n").json
    assert "## Task\n\nretry a request\n" in piped["text"]
    like = run("context", "review", "--snippet", "-", "--json", stdin="def sign_session(key, payload):").json
    assert [run["query"] for run in like["searches"] if run["name"] == "similar"] == ["the snippet"]
    assert "src/sessions.py" in paths(like)


@pytest.mark.slow
def test_a_file_is_found_by_its_path_in_the_index_or_on_this_machine(indexed: Path, shop: Path, run: Run):
    (shop / "src" / "other.py").write_text(CODE.replace("session", "cookie"))
    run("refresh")
    new = shop / "src" / "new.py"
    new.write_text(CODE.replace("session", "ticket"))
    for file in ("src/sessions.py", str(shop / "src" / "sessions.py"), str(new)):
        told = run("context", "review", "--task", "code_review", "--file", file, "--json").json
        (similar,) = [run for run in told["searches"] if run["name"] == "similar"]
        assert (similar["problem"], told["degraded"]) == (None, [])
        assert similar["found"] > 0 and "src/other.py" in paths(told)


def test_a_file_of_a_checkout_is_that_of_its_git_source(indexed: Path, shop: Path, tmp_path: Path, run: Run):
    config = indexed / "knowledge.yaml"
    declared = config.read_text().partition("sources:")[0]
    connection = {"type": "git", "url": str(shop)}
    sources = [{"id": "shop", "type": "code", "connection": connection}]
    config.write_text(f"{declared}sources: {json.dumps(sources)}\n")
    run("refresh", "--source", "shop")
    git(tmp_path, "clone", "--quiet", str(shop), "clone")
    for folder in (shop, tmp_path / "clone"):
        file = folder / "src" / "sessions.py"
        for name in (file, os.path.relpath(file)):
            ran = run("context", "review", "--file", str(name), "--json").json
            (similar,) = [run for run in ran["searches"] if run["name"] == "similar"]
            assert (similar["query"], similar["problem"]) == ("src/sessions.py", None)
    ran = run("get", f"{tmp_path}/clone/src/sessions.py:4", "--json").json
    assert ran["results"][0]["citation"]["source"] == "shop"


def test_a_file_that_is_nowhere_is_told_and_the_rest_is_printed(indexed: Path, run: Run):
    ran = run("context", "retry a request", "--file", "no/such.py")
    assert "similar: could not be searched: there is no file 'no/such.py'" in ran.err
    assert "src/sessions.py" in ran.out


def test_a_template_is_a_file_or_a_name_of_the_configured_folder(indexed: Path, run: Run):
    own = indexed / "own"
    own.mkdir()
    (own / "my.j2").write_text("{{ task }}{% for p in excerpts %} [{{ p.number }}] {{ p.path }}{% endfor %}")
    by_file = run("context", "retry", "--template", "own/my.j2").out
    assert by_file.startswith("retry [1] ")
    config = indexed / "knowledge.yaml"
    config.write_text(config.read_text() + "context:\n  templates: own\n  max_tokens: 50\n")
    ran = run("context", "retry", "--template", "my")
    assert ran.out.startswith("retry") and "of 50 tokens" in ran.err
    (own / "my.j2").write_text("{{ tsk }}")
    message = "the template my.j2, line 1, is wrong: 'tsk' is undefined"
    assert message in run("context", "retry", "--template", "my", code=2).err


def test_options_narrow_every_search(indexed: Path, run: Run):
    assert set(paths(run("context", "session", "--source", "shop-docs", "--json").json)) == {"docs/guide.md"}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["context"], "TASK"),
        (["context", " "], "the task is empty"),
        (["context", "x", "--task", "dance"], "--task"),
        (["context", "x", "--max-tokens", "0"], "--max-tokens"),
        (["context", "x", "--max-tokens", "10"], "max_tokens is 10: shorten the task, or allow more"),
        (["context", "x", "--template", "absent"], "there is no template 'absent': known are"),
        (["context", "x", "--template", "./absent.j2"], "no such file"),
        (["context", "-", "--snippet", "-"], "only one of TASK, --snippet, --suffix and --history"),
    ],
)
def test_what_makes_no_sense_is_wrong_usage(indexed: Path, run: Run, arguments: list[str], sentence: str):
    assert sentence in run(*arguments, code=2).err
    assert sentence in run(*arguments, "--json", code=2).error["error"]


def test_before_any_release_it_says_what_to_do(home: Path, run: Run):
    assert "knowledge index" in run("context", "anything", code=3).err

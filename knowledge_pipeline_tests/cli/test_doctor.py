"""`doctor` finds what is missing, and changes nothing."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from pathlib import Path

import pytest

from knowledge_pipeline_tests.cli.conftest import Ran, Run


def _states(ran: Ran) -> Mapping[str, tuple[str, str]]:
    return {each["subject"]: (each["state"], each["message"]) for each in ran.json}


def test_where_everything_is_there_nothing_failed(indexed: Path, run: Run):
    before = sorted(indexed.rglob("*"))
    found = _states(run("doctor", "--json"))
    assert {state for state, _ in found.values()} <= {"ok", "warning"}
    assert found["release"] == ("ok", "release 1 is live (3 rows)")
    assert found["embedding model"] == ("ok", "hashed-words, 32 dimensions")
    assert found["git"][0] == "ok"
    assert sorted(indexed.rglob("*")) == before


def test_a_person_sees_a_table(indexed: Path, run: Run):
    lines = run("doctor").out.splitlines()
    assert lines[0].split() == ["SUBJECT", "STATE", "MESSAGE"]
    assert any(line.startswith("configuration ") and "knowledge.yaml, 3 sources" in line for line in lines)


def test_without_a_configuration_it_says_how_to_begin(nowhere: Path, run: Run):
    state, message = _states(run("doctor", "--json", code=1))["configuration"]
    assert state == "failed" and "run `knowledge init`" in message


def test_a_variable_that_is_not_set_is_named(home: Path, run: Run, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("EMBEDDING_KEY")
    found = _states(run("doctor", "--json", code=1))
    assert found["variables"][0] == "failed" and "EMBEDDING_KEY" in found["variables"][1]
    assert found["release"] == ("warning", "nothing is released yet: run `knowledge index`")


def test_a_model_that_is_not_there_fails(home: Path, run: Run):
    (home / "knowledge.yaml").write_text("version: 1\nembedding: {model: ./no-such-folder}\nsources: []\n")
    state, message = _states(run("doctor", "--json", code=1))["embedding model"]
    assert state == "failed" and "set embedding.model" in message


def test_a_store_that_is_a_file_fails(home: Path, run: Run):
    (home / ".knowledge").write_text("not a folder")
    state, message = _states(run("doctor", "--json", code=1))["store"]
    assert state == "failed" and "is a file" in message


def test_a_port_that_is_taken_is_said(home: Path, run: Run):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with (home / "knowledge.yaml").open("a") as file:
            file.write(f"serve: {{port: {port}}}\n")
        state, message = _states(run("doctor", "--json"))["port of the server"]
    assert state == "warning" and message.startswith(f"{port} is taken")

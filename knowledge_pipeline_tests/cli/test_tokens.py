"""`knowledge token`: made once, listed without the secret, ended."""

from __future__ import annotations

from pathlib import Path

import pytest

from knowledge_pipeline.serve.tokens import TokenStore
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline_tests.cli.conftest import Run


def test_a_token_is_shown_once_and_only_its_digest_is_stored(run: Run, home: Path) -> None:
    made = run("token", "create", "Ann's editor", "--tenant", "acme", "--principal", "ann", "--json").json
    assert (made["tenant"], made["principals"], made["scopes"]) == ("acme", ["ann"], ["query"])
    listed = run("token", "list", "--json")
    assert [token["id"] for token in listed.json["tokens"]] == [made["id"]]
    secret = made["token"].partition(f"_{made['id']}_")[2]
    assert secret
    stored = b"".join(path.read_bytes() for path in (home / ".knowledge").rglob("*") if path.is_file())
    assert made["id"].encode() in stored
    assert secret.encode() not in stored
    assert secret not in listed.out
    assert secret not in run("token", "list").out


def test_for_people_stdout_is_the_token_alone(run: Run, home: Path) -> None:
    made = run("token", "create", "page")
    held = TokenStore(Lake(home / ".knowledge")).verify_secret(made.out.strip())
    assert held is not None
    assert held.name == "page"
    assert "not shown again" in made.err


def test_a_revoked_token_stays_in_the_list(run: Run, home: Path) -> None:
    id_ = run("token", "create", "deploy", "--everything", "--scope", "admin", "--json").json["id"]
    assert run("token", "revoke", "deploy", "--json").json["state"] == "revoked"
    assert run("token", "revoke", id_, "--json", code=3).error["kind"] == "NotFound"
    assert [token["state"] for token in run("token", "list", "--json").json["tokens"]] == ["revoked"]


@pytest.mark.parametrize(
    "arguments, told",
    [
        (["--principal", "ann"], "name the tenant"),
        (["--tenant", "acme", "--everything"], "sees everything"),
        (["--expires", "soon"], "12h"),
        (["--expires", "0d"], "12h"),
        (["--tenant", "\x00"], "cannot name"),
        (["--rate", "0"], "rate"),
    ],
)
def test_a_token_that_makes_no_sense_is_not_made(
    run: Run, home: Path, arguments: list[str], told: str
) -> None:
    refused = run("token", "create", "x", *arguments, code=2)
    assert told in refused.err
    assert run("token", "list", "--json").json["tokens"] == []

"""Tokens: who holds one, until when."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from knowledge_pipeline.errors import InvalidQuery, NotFound
from knowledge_pipeline.query.access import Caller
from knowledge_pipeline.serve import tokens as module
from knowledge_pipeline.serve.tokens import TokenStore
from knowledge_pipeline.store.lake import Lake


@pytest.fixture
def tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TokenStore:
    monkeypatch.setattr(module, "_RELOAD_INTERVAL_S", 0.05)
    return TokenStore(Lake(tmp_path))


def look_again() -> None:
    time.sleep(0.06)


def test_the_holder_of_a_secret_sees_what_the_token_says(tokens: TokenStore) -> None:
    made, secret = tokens.create("Ann", tenant="acme", principals=["ann"], requests_per_minute=7)
    held = tokens.verify_secret(secret)
    assert held == made
    access = held.access(Caller("http", held.id))
    assert (access.tenant, access.principals, access.everything) == ("acme", {"ann"}, False)


def test_a_secret_that_is_changed_anywhere_opens_nothing(tokens: TokenStore) -> None:
    _, secret = tokens.create("Ann")
    changed = [secret[:i] + ("x" if secret[i] != "x" else "y") + secret[i + 1 :] for i in range(len(secret))]
    assert [
        other
        for other in (*changed, secret + "x", secret[:-1], "", "kpt__", "\ud800")
        if tokens.verify_secret(other)
    ] == []
    assert tokens.verify_secret(secret)


def test_another_process_s_token_is_taken_and_its_end_is_noticed(tokens: TokenStore, tmp_path: Path) -> None:
    other = TokenStore(Lake(tmp_path))
    assert tokens.verify_secret("kpt_00000000_x") is None
    made, secret = other.create("Ann")
    look_again()
    assert tokens.verify_secret(secret) == made
    other.revoke(made.id)
    look_again()
    assert tokens.verify_secret(secret) is None


def test_a_token_ends_when_it_expires(tokens: TokenStore) -> None:
    made, secret = tokens.create("short", expires_in=timedelta(seconds=3))
    assert tokens.verify_secret(secret)
    time.sleep(max(0.0, (made.expires_at - datetime.now(UTC)).total_seconds()) + 0.05)
    assert tokens.verify_secret(secret) is None
    with pytest.raises(NotFound):
        tokens.revoke(made.id)


def test_of_tokens_with_one_name_the_id_says_which_ends(tokens: TokenStore) -> None:
    first, _ = tokens.create("Ann")
    _, secret = tokens.create("Ann")
    with pytest.raises(InvalidQuery, match="2 tokens"):
        tokens.revoke("Ann")
    assert tokens.revoke(first.id).revoked_at
    look_again()
    assert tokens.verify_secret(secret)


def test_a_store_made_anew_knows_no_old_token(tokens: TokenStore, tmp_path: Path) -> None:
    import shutil

    _, secret = tokens.create("Ann")
    assert tokens.verify_secret(secret)
    shutil.rmtree(tmp_path / "tokens.lance")
    look_again()
    assert tokens.verify_secret(secret) is None

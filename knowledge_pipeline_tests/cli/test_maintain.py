"""`maintain`: what it tells people and programs."""

import shutil
from pathlib import Path

from knowledge_pipeline_tests.cli.conftest import Run


def edited(shop: Path, run: Run) -> None:
    """A refresh after a change."""
    (shop / "docs" / "guide.md").write_text("# Guide\n\nOther words about sessions.\n")
    run("refresh")


def test_it_tells_what_was_done_and_then_that_nothing_is_left(indexed: Path, shop: Path, run: Run):
    edited(shop, run)
    before = run("search", "sessions", "--json").json["results"]
    told = run("maintain", "--grace", "0").out
    assert "old versions removed" in told and "freed: 3 sources checked" in told
    assert "Nothing to do: 3 sources checked" in run("maintain", "--grace", "0").out
    assert run("search", "sessions", "--json").json["results"] == before


def test_a_dry_run_names_the_tables_and_leaves_them(indexed: Path, shop: Path, run: Run):
    edited(shop, run)
    told = run("maintain", "--grace", "0", "--dry-run").out
    assert "versions: snapshot/markdown/shop-docs.lance" in told and "Dry run, nothing was changed" in told
    done = run("maintain", "--grace", "0", "--json").json
    assert "snapshot/markdown/shop-docs.lance" in done["actions"][0]["touched"]
    assert (done["dry_run"], done["skipped"]) == (False, {}) and done["freed"] > 0


def test_it_needs_no_secret(indexed: Path, run: Run, monkeypatch):
    monkeypatch.delenv("EMBEDDING_KEY")
    assert run("maintain", "--json").json["skipped"] == {}


def test_a_project_without_a_store_has_nothing_to_do(home: Path, run: Run):
    assert "Nothing to do: 0 sources" in run("maintain").out
    assert not (home / ".knowledge").exists()


def test_a_damaged_list_of_releases_is_told_in_one_sentence_by_every_command(indexed: Path, run: Run):
    root = indexed / ".knowledge" / "releases.lance"
    kept = shutil.copytree(root, indexed / "backup")
    newest = min((root / "_versions").glob("*.manifest"))  # Lance counts down
    newest.write_bytes(newest.read_bytes()[:40])
    sentence = "the list of releases, releases.lance of the store, cannot be read"
    for command in ("search session", "refresh", "status", "releases", "rollback 1"):
        told = run(*command.split(), code=1)
        assert sentence in told.err, command
        assert "restore that folder from a backup" in told.err and "this may be a bug" not in told.err
    found = run("verify", "--json", code=1).json["findings"]
    assert [(it["table"], it["remedy"]) for it in found] == [("releases", "restore it from a backup")]
    assert sentence in run("maintain", "--repair").out
    shutil.rmtree(root)
    kept.rename(root)
    assert "The store is whole." in run("verify").out
    assert "sign_session" in run("search", "session").out


def test_verify_tells_what_is_damaged_and_how_it_is_mended(indexed: Path, run: Run, run_program: Run):
    assert "The store is whole." in run("verify").out
    (file,) = (indexed / ".knowledge" / "chunks" / "markdown" / "shop-docs.lance" / "data").iterdir()
    file.write_bytes(bytes(file.stat().st_size))
    found = run("verify", "--json", code=1).json["findings"]
    assert [it["table"] for it in found] == ["chunks/markdown/shop-docs"]
    assert found[0]["remedy"] == "run `knowledge maintain --repair`, then `knowledge refresh`"
    told = run_program("refresh", code=1).err
    assert "a table of source 'shop-docs' cannot be read" in told and "maintain --repair" in told
    assert "damage repaired" in run_program("maintain", "--repair").out
    run_program("refresh")
    assert "The store is whole." in run("verify").out

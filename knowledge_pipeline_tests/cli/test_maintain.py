"""`maintain`: what it tells people and programs."""

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

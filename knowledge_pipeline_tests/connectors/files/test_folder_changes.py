"""Changes that cannot concern a source are told from paths; everything else is let through."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from knowledge_pipeline.config.sources import SourceConfig
from knowledge_pipeline.connectors.files import find_watched_folder, is_affected_by

Concerns = Callable[..., bool]


def source(folder: Path, type_: str = "code", **rest: Any) -> SourceConfig:
    connection = {"type": "local", "path": folder}
    return SourceConfig.model_validate({"id": "shop", "type": type_, "connection": connection, **rest})


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    for name in (
        "src/a.py",
        "src/run",
        "docs/guide.md",
        "src/a.png",
        "build/out.py",
        "node_modules/x/x.js",
        ".git/HEAD",
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x = 1\n")
    (folder / ".gitignore").write_text("build/\n*.tmp.py\n")
    return folder


@pytest.fixture
def concerns(shop: Path) -> Concerns:
    def asked(*names: str, type_: str = "code", held: tuple[str, ...] = (), **rest: Any) -> bool:
        of = source(shop, type_, **rest)
        folder = find_watched_folder(of)
        assert folder is not None
        paths = [str(shop / name) for name in names]
        return is_affected_by(of, folder, paths, store=shop / "tables", was_document=held.__contains__)

    return asked


@pytest.mark.parametrize(
    "name", ["src/a.py", "src/.gitignore", ".gitignore", "src", ".", "src/new", "src/run", ".git/logs/HEAD"]
)
def test_what_may_change_a_listing_concerns_the_source(concerns: Concerns, shop: Path, name: str) -> None:
    (shop / "src/new").mkdir()
    (shop / "src/run").chmod(0o755)
    assert concerns(name)


@pytest.mark.parametrize(
    "name",
    [
        *(
            "docs/guide.md",
            "src/a.png",
            "node_modules/x/x.js",
            "node_modules",
            ".git/HEAD",
            ".git/index.lock",
        ),
        *("build/out.py", "build", "src/b.tmp.py", "tables/chunks/code/shop.py"),
    ],
)
def test_what_patterns_rules_or_the_store_leave_out_does_not(
    concerns: Concerns, shop: Path, name: str
) -> None:
    (shop / "src/b.tmp.py").write_text("x = 1\n")
    (shop / "tables/chunks/code").mkdir(parents=True)
    (shop / "tables/chunks/code/shop.py").write_text("x = 1\n")
    assert not concerns(name)


def test_what_is_gone_concerns_the_source_that_held_it(concerns: Concerns) -> None:
    held = ("src/old.py", "lib.v2")
    assert concerns("src/old.py", held=held) and concerns("lib.v2", held=held)
    assert concerns("src/.gitignore")
    assert not concerns("src/.a.py.swp", held=held) and not concerns("src/4913", held=held)


def test_a_change_of_the_coverage_report_concerns_the_source(concerns: Concerns, shop: Path) -> None:
    assert concerns("coverage.xml", metadata={"coverage": shop / "coverage.xml"})
    assert not concerns("coverage.xml")


def test_the_user_s_patterns_decide(concerns: Concerns) -> None:
    assert not concerns("src/a.py", exclude=["src/"])
    assert concerns("docs/guide.md", include=["*.md"])
    assert concerns("docs/guide.md", type_="markdown")
    assert concerns("src/x.txt", "docs/guide.md", type_="markdown")


def git(folder: Path, *arguments: str) -> None:
    person = ["-c", "user.name=Ann", "-c", "user.email=ann@example.com", "-c", "init.defaultBranch=main"]
    subprocess.run(["git", *person, *arguments], cwd=folder, check=True, capture_output=True)


def test_a_history_is_watched_where_its_branches_are(tmp_path: Path) -> None:
    main, other = tmp_path / "main", tmp_path / "other"
    main.mkdir()
    git(main, "init", "--quiet")
    git(main, "commit", "--quiet", "--allow-empty", "--message", "one")
    git(main, "worktree", "add", "--quiet", str(other))
    assert find_watched_folder(source(other, "git_history")) == main / ".git"
    assert find_watched_folder(source(main, "git_history")) == main / ".git"
    assert find_watched_folder(source(tmp_path / "none", "git_history")) == tmp_path / "none"


def test_a_history_is_concerned_by_its_branches_alone(tmp_path: Path) -> None:
    folder = tmp_path / "shop"
    history = source(folder, "git_history")

    def moved(*names: str) -> bool:
        paths = [str(folder / name) for name in names]
        return is_affected_by(history, folder, paths, store=tmp_path / "x", was_document=lambda path: False)

    assert moved(".git/refs/heads/main") and moved("HEAD") and moved(".git/packed-refs") and moved(".git")
    assert not moved(".git/index", ".git/refs/heads/main.lock", ".git/objects/aa/bb", "src/a.py")


def test_what_is_not_on_this_machine_has_no_folder() -> None:
    remote = {"type": "git", "url": "https://example.com/shop.git"}
    assert (
        find_watched_folder(SourceConfig.model_validate({"id": "s", "type": "code", "connection": remote}))
        is None
    )

"""What a fresh clone says of when its files changed."""

from __future__ import annotations

import os
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from knowledge_pipeline_tests.cli.conftest import Run, git

OLD = datetime.now(UTC) - timedelta(days=400)
NEW = datetime.now(UTC) - timedelta(days=5)


def commit_at(folder: Path, moment: datetime) -> None:
    git(folder, "add", "--all")
    dates = {"GIT_AUTHOR_DATE": moment.isoformat(), "GIT_COMMITTER_DATE": moment.isoformat()}
    person = ["-c", "user.name=Ann", "-c", "user.email=ann@example.com"]
    command = ["git", *person, "commit", "--quiet", "--message", "change"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, env=os.environ | dates)


@pytest.fixture
def upstream(tmp_path: Path) -> Path:
    """A repository with an old file and a new one, and documentation as old."""
    folder = tmp_path / "upstream"
    folder.mkdir()
    git(folder, "init", "--quiet")
    (folder / "old.py").write_text("def sign_session(key):\n    return key\n")
    (folder / "guide.md").write_text("# Sessions\n\nHow to sign a session.\n")
    commit_at(folder, OLD)
    (folder / "new.py").write_text("def sign_session_again(key):\n    return key + key\n")
    commit_at(folder, NEW)
    return folder


def modified(run: Run, *options: str) -> dict[str, str | None]:
    """By path, the dates of what is found."""
    answer = run("search", "sign a session", "--limit", "10", "--json", *options).json
    moments = {
        result["citation"]["path"]: result["metadata"].get("last_modified") for result in answer["results"]
    }
    return {path: moment and moment[:10] for path, moment in moments.items() if path != "commit"}


def test_since_means_commits_in_a_fresh_clone(home: Path, upstream: Path, tmp_path: Path, run: Run):
    git(tmp_path, "clone", "--quiet", f"file://{upstream}", "clone")
    run("index", "--repo", str(tmp_path / "clone"))
    of_files = ["--source-type", "code", "--source-type", "markdown"]
    days = {"old.py": str(OLD.date()), "guide.md": str(OLD.date()), "new.py": str(NEW.date())}
    assert modified(run, *of_files) == days
    assert set(modified(run, "--since", "30d", *of_files)) == {"new.py"}
    assert set(modified(run, "--until", "30d", *of_files)) == {"old.py", "guide.md"}
    (tmp_path / "clone" / "old.py").write_text("def sign_session(key):\n    return key * 2\n")
    run("refresh")
    assert set(modified(run, "--since", "1d", *of_files)) == {"old.py"}, "it is changed now"
    assert refreshed(run, "clone-code") == (0, 0, 0)


def test_files_of_a_shallow_clone_have_no_date(home: Path, upstream: Path, tmp_path: Path, run: Run):
    git(tmp_path, "clone", "--quiet", "--depth", "1", f"file://{upstream}", "clone")
    run("index", "--repo", str(tmp_path / "clone"))
    of_files = ["--source-type", "code", "--source-type", "markdown"]
    assert modified(run, *of_files) == {"old.py": None, "guide.md": None, "new.py": None}
    assert modified(run, "--since", "10y", *of_files) == {}
    (tmp_path / "clone" / "new.py").write_text("def sign_session_again(key):\n    return 3 * key\n")
    git(tmp_path / "clone", "commit", "--quiet", "--all", "--message", "mine")
    run("refresh")
    assert set(modified(run, "--since", "1d", *of_files)) == {"new.py"}


def test_a_commit_writes_its_own_files_and_embeds_nothing_anew(
    home: Path, upstream: Path, tmp_path: Path, run: Run
):
    git(tmp_path, "clone", "--quiet", f"file://{upstream}", "clone")
    clone = tmp_path / "clone"
    run("index", "--repo", str(clone))
    (clone / "new.py").write_text("def sign_session_again(key):\n    return 3 * key\n")
    assert refreshed(run, "clone-code") == (0, 1, 1)
    git(clone, "commit", "--quiet", "--all", "--message", "as it is")
    assert refreshed(run, "clone-code") == (0, 1, 0), "the file has the date of its commit now"
    (clone / "picture.svg").write_text("<svg/>")
    commit_at(clone, datetime.now(UTC))
    assert refreshed(run, "clone-code") == (0, 0, 0)


def refreshed(run: Run, source: str) -> tuple[int, int, int]:
    """How many documents of a source were added and changed, and how many chunks embedded."""
    summaries = {summary["source"]: summary for summary in run("refresh", "--json").json["sources"]}
    return tuple(summaries[source][name] for name in ("added", "changed", "embedded"))

"""Commits as documents."""

from datetime import UTC, datetime

import pytest

from knowledge_pipeline.connectors.registry import open_source
from knowledge_pipeline.errors import ConfigError, SourceRefused
from knowledge_pipeline_tests.connectors.repositories import (
    START,
    Repository,
    listed,
    over_folder,
    over_git,
    read,
)
from knowledge_pipeline_tests.counted import audited


def one(repository, cache, commit, **options):
    return read(over_git("git_history", repository.root, **options), cache)[f"commit/{commit}"]


def test_a_commit_tells_message_author_files_and_what_changed(repository, cache):
    repository.write(
        {"a.py": "def first():\n    one = 1\n    two = 2\n    three = 3\n    return one\n"}
    ).commit()
    parent = repository.git("rev-parse", "HEAD")
    changed = (repository.root / "a.py").read_text().replace("= 3", "= 4")
    repository.write({"a.py": changed, "b.txt": "b\n"})
    commit = repository.commit("Count further\n\nBecause it was short.\n", when=START, author="Grace")
    document = one(repository, cache, commit)
    assert document.text == (
        "Count further\n\nBecause it was short.\n\nAuthor: Grace\nDate: 2020-09-13T12:26:40+00:00\n\n"
        "Files changed: 2 (+2 -1)\n- a.py (+1 -1)\n- b.txt (+1 -0)\n\n"
        "diff a.py\n@@ -3,3 +3,3 @@ def first():\n"
        "     two = 2\n-    three = 3\n+    three = 4\n     return one\n\n"
        "diff b.txt\n@@ -0,0 +1 @@\n+b"
    )
    assert (document.title, document.author) == ("Count further", "Grace")
    assert document.last_modified == datetime.fromtimestamp(START, UTC)
    facts = {key: value for key, value in document.metadata.items() if key != "segments"}
    assert facts == {
        "sha": commit,
        "parents": [parent],
        "files": ["a.py", "b.txt"],
        "files_changed": 2,
        "insertions": 2,
        "deletions": 1,
    }


def test_drawings_and_lock_files_are_named_but_not_quoted(repository, cache):
    files = {"logo.svg": "<svg>curves</svg>\n", "uv.lock": "pinned\n", "a.py": "told = 1\n"}
    repository.write(files).commit("all three")
    [document] = read(over_git("git_history", repository.root), cache).values()
    assert all(f"- {name} (+1 -0)" in document.text for name in files)
    assert "told = 1" in document.text
    assert "curves" not in document.text and "pinned" not in document.text


def test_segments_are_the_parts_of_the_text(repository, cache):
    commit = repository.write({"a.py": "1\n", "b.py": "2\n"}).commit("Subject\n\nBody")
    document = one(repository, cache, commit)
    parts = [
        (s["kind"], document.text[s["start_char"] : s["end_char"]]) for s in document.metadata["segments"]
    ]
    assert [kind for kind, _ in parts] == ["message", "files", "diff", "diff"]
    assert "\n\n".join(text for _, text in parts) == document.text
    assert parts[2][1].startswith("diff a.py\n")


def test_no_address_of_a_person_is_told(repository, cache):
    commit = repository.write({"a": "1"}).commit(
        "Fix\n\nCo-authored-by: Eve Example <eve@example.org>\nSigned-off-by: Ada <ada@example.org>\nSee #3"
    )
    document = one(repository, cache, commit)
    assert "@example.org" not in document.text + str(document.metadata)
    assert "Co-authored-by: Eve Example\nSigned-off-by: Ada\nSee #3" in document.text


def test_a_merge_is_told_against_its_first_parent(repository, cache):
    repository.write({"a": "1"}).commit()
    repository.git("checkout", "-q", "-b", "side")
    repository.write({"b": "1\n"}).commit()
    repository.git("checkout", "-q", "main")
    repository.write({"a": "2"}).commit()
    repository.git("merge", "-q", "--no-ff", "-m", "Merge side", "side")
    document = one(repository, cache, repository.git("rev-parse", "HEAD"))
    assert document.metadata["files"] == ["b"]
    assert len(document.metadata["parents"]) == 2


def test_renames_binaries_and_odd_names_are_told(repository, cache):
    repository.write({"old name.py": "line\n" * 20}).commit()
    repository.git("mv", "old name.py", "new.py")
    commit = repository.write({"bin": b"\0\1", 'odd\n"é.py': "x\n"}).commit()
    text = one(repository, cache, commit).text
    assert "- bin (binary)\n" in text
    assert "- old name.py => new.py (+0 -0)\n" in text
    assert '- odd "é.py (+1 -0)\n' in text


def test_a_commit_without_message_or_change_is_still_a_document(repository, cache):
    commit = repository.commit("")
    document = one(repository, cache, commit)
    assert document.title == f"Commit {commit[:12]}"
    assert document.metadata["files"] == []


def test_a_huge_commit_is_cut_to_what_can_be_read(repository, cache):
    files = {f"folder/{number}.txt": f"{number}\n" + "long line " * 400 + "\n" for number in range(1000)}
    repository.write(files)
    repository.write({"huge.txt": "x" * 3_000_000 + "\n"})
    first = repository.commit("Import")
    after = repository.write({"small.txt": "1\n"}).commit("After")
    documents = read(over_git("git_history", repository.root), cache)
    text = documents[f"commit/{first}"].text
    assert "Files changed: 1001 (+2001" in text or "Files changed: 1001 (+2000" in text
    assert "- and 801 more" in text
    assert len(text) < 40_000
    assert "+1" in documents[f"commit/{after}"].text


def test_depth_and_since_limit_the_listing_newest_first(repository, cache):
    commits = [repository.write({"a": str(day)}).commit(when=START + day * 86_400) for day in range(5)]
    everything = [f"commit/{commit}" for commit in reversed(commits)]
    assert list(listed(over_git("git_history", repository.root), cache)) == everything
    assert list(listed(over_git("git_history", repository.root, depth=2), cache)) == everything[:2]
    since = datetime.fromtimestamp(START + 3 * 86_400, UTC).isoformat()
    assert list(listed(over_git("git_history", repository.root, since=since), cache)) == everything[:2]


def test_the_history_of_a_folder_is_that_of_its_checkout(repository, cache):
    first = repository.write({"a": "1"}).commit()
    repository.write({"a": "2"}).commit()
    repository.git("checkout", "-q", first)
    source = over_folder("git_history", repository.root)
    assert set(listed(source, cache)) == {f"commit/{first}"}
    assert read(source, cache)[f"commit/{first}"].url is None
    assert not cache.exists()


def test_a_linked_work_tree_has_a_history_too(repository, cache, tmp_path):
    commit = repository.write({"a": "1"}).commit()
    repository.git("worktree", "add", "-q", str(tmp_path / "linked"))
    assert set(listed(over_folder("git_history", tmp_path / "linked"), cache)) == {f"commit/{commit}"}


def test_a_repository_without_commits_has_no_history(repository, cache):
    assert listed(over_folder("git_history", repository.root), cache) == {}
    assert listed(over_git("git_history", repository.root), cache) == {}


def test_a_folder_without_a_readable_history_is_refused(repository, cache, tmp_path):
    (tmp_path / "plain").mkdir()
    with pytest.raises(SourceRefused, match="no git history that can be read"):
        listed(over_folder("git_history", tmp_path / "plain"), cache)
    with pytest.raises(SourceRefused, match="does not exist"):
        listed(over_folder("git_history", tmp_path / "missing"), cache)
    repository.write({"a": "1"}).commit()
    (repository.root / ".git/refs/heads/main").write_text("0" * 39 + "1\n")
    with pytest.raises(SourceRefused, match="no git history that can be read"):
        listed(over_folder("git_history", repository.root), cache)


@pytest.mark.parametrize("since", ["yesterday-ish", "", "--all", "31.01.2024", "99999 years", "5"])
def test_a_since_that_git_would_take_for_now_is_told(since, repository, cache):
    with pytest.raises(ConfigError, match="which is not a date: write it like 2024-01-31"):
        open_source(over_git("git_history", repository.root, since=since), cache=cache)


@pytest.mark.slow
def test_a_thousand_commits_are_read_by_a_few_processes(repository, cache):
    lines = ["blob\nmark :1\ndata 2\n1\n\n"]
    for number in range(1000):
        lines.append(
            f"commit refs/heads/main\ncommitter A <a@example.org> {START + number} +0000\n"
            f"data 3\nc{number % 10}\nM 100644 inline f{number % 50}.py\ndata 4\n{number:03d}\n"[:-1]
            + "\n"
        )
    repository.git("fast-import", "--quiet", stdin="".join(lines).encode())
    with audited("subprocess.Popen") as processes:
        assert len(read(over_folder("git_history", repository.root), cache)) == 1000
    assert 1 <= len(processes) < 10


def test_commits_are_taken_by_the_files_that_they_change(repository, cache):
    billing = repository.write({"src/billing/pay.py": "1\n"}).commit("pay")
    repository.write({"docs/a.md": "a\n"}).commit("docs alone")
    both = repository.write({"docs/a.md": "b\n", "src/billing/pay.py": "2\n"}).commit("both")
    (repository.root / "src/billing/pay.py").rename(repository.root / "pay.py")
    moved = repository.commit("moved out")
    repository.commit("nothing")
    vendored = repository.write({"src/billing/vendor/x.py": "x\n"}).commit("vendored")

    def taken(**patterns):
        return set(listed(over_git("git_history", repository.root, **patterns), cache))

    wanted = {f"commit/{commit}" for commit in (billing, both, moved)}
    assert taken(include=["src/billing/"], exclude=["vendor/"]) == wanted
    assert taken(include=["src/billing/"]) == wanted | {f"commit/{vendored}"}
    assert taken(include=["/nowhere/"]) == set()
    assert taken(include=["src/billing/"], depth=4) == {
        f"commit/{commit}" for commit in (both, moved, vendored)
    }


def test_a_merge_is_taken_by_what_it_changes_in_its_first_parent(repository, cache):
    repository.write({"a.py": "1\n"}).commit("first")
    repository.git("checkout", "-q", "-b", "side")
    side = repository.write({"src/b.py": "1\n"}).commit("side")
    repository.git("checkout", "-q", "main")
    repository.write({"c.py": "1\n"}).commit("main")
    repository.git("merge", "-q", "--no-ff", "-m", "merge", "side")
    merge = repository.git("rev-parse", "HEAD")
    found = listed(over_git("git_history", repository.root, include=["src/"]), cache)
    assert set(found) == {f"commit/{side}", f"commit/{merge}"}


def test_a_wrong_pattern_for_commits_is_refused(repository, cache):
    repository.write({"a.py": "1\n"}).commit("first")
    with pytest.raises(ConfigError, match="include has the pattern '!', which is not gitignore syntax"):
        listed(over_git("git_history", repository.root, include=["!"]), cache)


def commit_raw(repository, rest, author, encoding):
    date = f"{START} +0000"
    persons = f"author {author} <a@example.org> {date}\ncommitter C <c@example.org> {date}"
    raw = f"tree {repository.git('mktree')}\n{persons}\n{rest}".encode(encoding)
    commit = repository.git("hash-object", "-t", "commit", "-w", "--stdin", stdin=raw)
    repository.git("update-ref", "refs/heads/main", commit)
    return commit


@pytest.mark.parametrize(
    ("label", "written", "message"),
    [
        ("ISO-8859-1", "cp1252", "Prüfe Größe – “schnell”"),
        ("gb2312", "gb18030", "修复镕基数据库"),
        ("windows-31j", "cp932", "①サーバを直す"),
        ("UTF-8", "utf-8", "Prüfe Größe"),
    ],
)
def test_a_message_is_in_the_encoding_that_its_commit_declares(repository, cache, label, written, message):
    author = message.split()[-1]
    commit = commit_raw(repository, f"encoding {label}\n\n{message}\n", author, written)
    document = one(repository, cache, commit)
    assert (document.title, document.author) == (message, author)
    assert "note" not in document.metadata


def test_what_a_commit_does_not_declare_is_in_the_configured_encoding(repository, cache):
    commit = commit_raw(repository, "\nPrüfe Größe\n", "Jürgen", "cp1252")
    document = one(repository, cache, commit, encoding="windows-1252")
    assert (document.title, document.author, document.metadata.get("note")) == ("Prüfe Größe", "Jürgen", None)
    document = one(repository, cache, commit)
    assert document.title == "Pr\ufffdfe Gr\ufffd\ufffde"
    assert document.metadata["note"] == "not valid UTF-8 at 3 places, which read \ufffd"


def test_lines_of_a_diff_may_be_in_several_encodings(repository, cache):
    repository.write({"a.py": "a = 'Größe'\n", "b.py": "b = 'Höhe'\n".encode("cp1252")})
    text = one(repository, cache, repository.commit(), encoding="windows-1252").text
    assert "+a = 'Größe'" in text and "+b = 'Höhe'" in text


def test_the_oldest_commit_of_a_shallow_clone_is_read_without_its_changes(repository, cache, tmp_path):
    repository.write({"a.py": "1\n"}).commit("First")
    commit = repository.write({"a.py": "2\n"}).commit("Second", when=START)
    root = tmp_path / "shallow"
    repository.git("clone", "-q", "--depth", "1", f"file://{repository.root}", str(root))
    shallow = over_folder("git_history", root)
    [document] = read(shallow, cache).values()
    assert document.text == "Second\n\nAuthor: Ada Byron\nDate: 2020-09-13T12:26:40+00:00"
    before = listed(shallow, cache)[f"commit/{commit}"].revision
    Repository(root).git("fetch", "-q", "--unshallow")
    assert "-1\n+2" in read(shallow, cache)[f"commit/{commit}"].text
    assert listed(shallow, cache)[f"commit/{commit}"].revision != before

"""Folders as they lie there."""

import os
import socket
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from knowledge_pipeline.connectors.base import uri_to_path
from knowledge_pipeline.connectors.files import is_affected_by
from knowledge_pipeline.connectors.registry import open_source
from knowledge_pipeline.errors import ConfigError, DocumentSkipped, SourceRefused
from knowledge_pipeline_tests.connectors.repositories import Repository, listed, over_folder, over_git, read
from knowledge_pipeline_tests.counted import audited, calls, steps


def test_nested_gitignore_files_are_honoured(repository, cache):
    repository.write(
        {
            ".gitignore": "*.log.py\n/top.py\nignored/\n!kept.log.py\n",
            "a.py": "1",
            "a.log.py": "1",
            "kept.log.py": "1",
            "top.py": "1",
            "sub/top.py": "1",
            "sub/.gitignore": "b.py\n!b.log.py\n",
            "sub/b.py": "1",
            "sub/b.log.py": "1",
            "sub/deep/b.py": "1",
            "ignored/a.py": "1",
            "ignored/.gitignore": "!a.py\n",
        }
    )
    listing = listed(over_folder("code", repository.root), cache)
    assert set(listing) == {"a.py", "kept.log.py", "sub/top.py", "sub/b.log.py"}


def test_what_git_tracks_is_read_though_a_rule_names_it(repository, cache, tmp_path):
    ignored = {
        "build/made.py": "1",
        "build/deep/ours.py": "2",
        "src/build/one.py": "3",
        "src/café.gen.py": "4",
    }
    repository.write({".gitignore": "build/\n*.gen.py\n", "a.py": "1", "src/b.py": "1", **ignored})
    repository.git("add", "-f", "build/deep/ours.py", "src/build/one.py", "src/café.gen.py")
    repository.commit()
    tracked = {"build/deep/ours.py", "src/build/one.py", "src/café.gen.py"}
    listing = listed(over_folder("code", repository.root, exclude=["nothing"]), cache)
    assert {uri_to_path(uri) for uri in listing} == {"a.py", "src/b.py", *tracked}
    part = read(over_folder("code", repository.root / "src"), cache)
    assert {document.path for document in part.values()} == {"b.py", "build/one.py", "café.gen.py"}
    repository.git("worktree", "add", "-q", str(tmp_path / "linked"))
    assert set(listed(over_folder("code", tmp_path / "linked"), cache)) == set(listing)
    source = over_folder("code", repository.root)

    def is_affected(name: str) -> bool:
        changed = [str(repository.root / name)]
        never = tmp_path / "store"
        return is_affected_by(source, repository.root, changed, store=never, was_document=lambda _: False)

    assert all(is_affected(name) for name in tracked)
    assert not is_affected("build/made.py")


def test_a_folder_and_the_commit_of_it_list_the_same_files(repository, cache):
    files = ["a.py", "vendor/b.go", "dist/c.js", "x/node_modules/d.js", "e.min.js", "Makefile", "data.json"]
    repository.write(
        {**dict.fromkeys(files, "text"), "sub/f.rs": "fn f() {}", "README.md": "# Hi", ".ci/g.sh": ":"}
    )
    repository.commit()
    for options in (
        {},
        {"exclude": ["!vendor/", "sub/"]},
        {"include": ["*.js", "*.json", "!x.json"]},
        {"languages": ["go", "bash"]},
    ):
        local = listed(over_folder("code", repository.root, **options), cache)
        assert set(local) == set(listed(over_git("code", repository.root, **options), cache)) != set()


def test_folders_of_dependencies_are_left_out_unless_an_exclusion_brings_them_back(repository, cache):
    repository.write({"a.go": "package a", "vendor/b/b.go": "package b", "dist/a.js": "1"})
    assert set(listed(over_folder("code", repository.root), cache)) == {"a.go"}
    brought_back = listed(over_folder("code", repository.root, exclude=["!vendor/"]), cache)
    assert set(brought_back) == {"a.go", "vendor/b/b.go"}


def test_include_replaces_the_default_and_exclude_comes_after_it(repository, cache):
    repository.write({"a.py": "1", "b.txt": "1", "docs/c.txt": "1", "docs/d.txt": "1"})
    source = over_folder("code", repository.root, include=["*.txt"], exclude=["docs/c.*"])
    assert set(listed(source, cache)) == {"b.txt", "docs/d.txt"}


def test_a_pattern_that_gitignore_does_not_know_is_told(repository, cache):
    with pytest.raises(ConfigError, match=r"source 'source': include has the pattern '!'"):
        open_source(over_folder("code", repository.root, include=["!"]), cache=cache)


def test_a_language_that_is_not_known_is_told_rather_than_finding_nothing(repository, cache):
    with pytest.raises(
        ConfigError, match=r"languages has 'pyton', which is not known: did you mean .*python"
    ):
        open_source(over_folder("code", repository.root, languages=["go", "pyton"]), cache=cache)


def test_the_rules_of_the_repository_around_the_folder_hold_in_it(repository, cache):
    repository.write({".gitignore": "*.tmp.py\n/part/secret/\n", "part/a.py": "1", "part/a.tmp.py": "1"})
    repository.write({"part/secret/b.py": "1", "part/sub/secret/c.py": "1"})
    assert set(listed(over_folder("code", repository.root / "part"), cache)) == {"a.py", "sub/secret/c.py"}


def test_a_folder_asked_for_by_name_is_read_though_it_is_ignored_around_it(repository, cache):
    repository.write({".gitignore": "build/\n", "build/docs/a.md": "# A"})
    assert set(listed(over_folder("markdown", repository.root / "build/docs"), cache)) == {"a.md"}


def test_symbolic_links_are_never_followed(tmp_path, cache):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.py").write_text("secret")
    root = tmp_path / "root"
    (root / "sub").mkdir(parents=True)
    (root / "a.py").write_text("1")
    (root / "link.py").symlink_to(outside / "secret.py")
    (root / "broken.py").symlink_to("nowhere")
    (root / "link.png").symlink_to("nowhere")
    (root / "folder").symlink_to(outside)
    (root / "sub/loop").symlink_to(root)
    (root / "self.py").symlink_to("self.py")
    listing = listed(over_folder("code", root), cache)
    skipped = dict.fromkeys(["link.py", "broken.py", "self.py"], "symbolic link, not followed")
    assert {uri: item.skip for uri, item in listing.items()} == {"a.py": None, **skipped}


def test_a_file_replaced_by_a_link_after_the_listing_is_not_followed(tmp_path, cache):
    (tmp_path / "root").mkdir()
    (tmp_path / "secret").write_text("secret")
    file = tmp_path / "root/a.py"
    file.write_text("1")
    with open_source(over_folder("code", file.parent), cache=cache) as source:
        [item] = source.discover()
        file.unlink()
        file.symlink_to(tmp_path / "secret")
        with pytest.raises(DocumentSkipped, match="symbolic link"):
            source.fetch(item)
        file.unlink()
        with pytest.raises(DocumentSkipped, match="deleted while it was read"):
            source.fetch(item)


def test_a_repository_inside_the_folder_is_one_skipped_item(repository, cache):
    repository.write({"a.py": "1"})
    Repository(repository.root / "libs/inner").write({"b.py": "1"})
    listing = listed(over_folder("code", repository.root), cache)
    assert set(listing) == {"a.py", "libs/inner"}
    assert listing["libs/inner"].skip == "git submodule; declare it as a source of its own"


def test_the_store_and_git_folder_are_never_listed(repository, cache):
    repository.write({".knowledge/x.py": "1", ".git/hooks/y.py": "1", "a.py": "1"})
    source = over_folder("code", repository.root, include=["*.py"], exclude=["!.git/", "!.knowledge/"])
    assert set(listed(source, cache)) == {"a.py"}


ODD = [
    b"new\nline.py",
    b"quo\"te's.py",
    b"100%.py",
    b"100%25.py",
    b"\xff\xfe.py",
    b"-rf.py",
    b" lead.py",
    b"*.py",
]
ODD += [
    "emoji 🎉.py".encode(),
    "e\u0301.py".encode(),
    "é.py".encode(),
    b"n" * 250 + b".py",
    b"a\\b.py",
    b"[x].py",
]


def test_every_odd_name_is_listed_and_read(tmp_path, cache):
    for number, name in enumerate(ODD):
        (tmp_path / os.fsdecode(name)).write_text(f"number {number}")
    documents = read(over_folder("code", tmp_path), cache)
    assert {document.text for document in documents.values()} == {f"number {n}" for n in range(len(ODD))}
    for document in documents.values():
        (document.uri + document.path + document.title).encode("utf-8")


def test_a_missing_folder_is_refused(tmp_path, cache):
    with pytest.raises(SourceRefused, match=r"missing does not exist: correct connection\.path"):
        listed(over_folder("code", tmp_path / "missing"), cache)


def test_a_file_in_place_of_a_folder_is_refused(tmp_path, cache):
    (tmp_path / "file").write_text("")
    with pytest.raises(SourceRefused, match="is not a folder"):
        listed(over_folder("code", tmp_path / "file"), cache)


@contextmanager
def as_nobody(folder: Path):
    """Without the rights of root, who may read everything; `folder` stays reachable."""
    for above in (folder, *folder.parents):
        if "pytest" in str(above):
            above.chmod(0o755)
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.skipif(os.getuid() != 0, reason="changes the user")
@pytest.mark.parametrize(
    ("closed", "error", "said"),
    [
        ("sub", SourceRefused, r"the folder .*/sub cannot be listed \(Permission denied\)"),
        (".gitignore", SourceRefused, r"/\.gitignore cannot be read \(Permission denied\)"),
        ("a.py", DocumentSkipped, r"^cannot be read \(Permission denied\)$"),
    ],
)
def test_without_permission_a_listing_fails_whole_and_a_file_alone(tmp_path, cache, closed, error, said):
    root = tmp_path / "root"
    Repository(root).write({"sub/b.py": "1", "a.py": "1", ".gitignore": "x"})
    source = over_folder("code", root)
    assert set(read(source, cache)) == {"a.py", "sub/b.py"}
    (root / closed).chmod(0)
    with as_nobody(root), pytest.raises(error, match=said):
        read(source, cache)


def test_what_is_no_regular_file_is_skipped_and_never_opened(tmp_path, cache):
    os.mkfifo(tmp_path / "pipe.py")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(tmp_path / "socket.py"))
        listing = listed(over_folder("code", tmp_path), cache)
    assert {uri: item.skip for uri, item in listing.items()} == dict.fromkeys(
        ["pipe.py", "socket.py"], "not a regular file"
    )


def test_a_file_of_100_megabytes_is_skipped_without_being_read(tmp_path, cache):
    with (tmp_path / "huge.py").open("wb") as file:
        file.truncate(100_000_000)
    with audited("open") as opened:
        listing = listed(over_folder("code", tmp_path), cache)
    assert listing["huge.py"].skip == "larger than 1000000 bytes (100000000)"
    assert not [path for _, (path, *_) in opened if "huge" in os.fsdecode(path)]


def test_a_file_that_grew_over_the_limit_since_the_listing_is_skipped(tmp_path, cache):
    (tmp_path / "a.py").write_text("1")
    with open_source(over_folder("code", tmp_path, max_bytes=100), cache=cache) as source:
        [item] = source.discover()
        (tmp_path / "a.py").write_text("1" * 200)
        with pytest.raises(DocumentSkipped, match=r"^larger than 100 bytes \(200\)$"):
            source.fetch(item)


def test_a_revision_changes_with_the_file_and_only_then(tmp_path, cache):
    source = over_folder("code", tmp_path)
    (tmp_path / "a.py").write_text("one")
    (tmp_path / "b.py").write_text("one")
    before = listed(source, cache)
    assert listed(source, cache) == before
    os.utime(tmp_path / "a.py", ns=(0, (tmp_path / "a.py").stat().st_mtime_ns + 1))
    after = listed(source, cache)
    assert after["b.py"] == before["b.py"]
    assert after["a.py"].revision != before["a.py"].revision


def test_a_document_of_a_folder_knows_its_time_and_language(tmp_path, cache):
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/a.h").write_text("namespace a { class B; }\r\n")
    os.utime(tmp_path / "lib/a.h", (0, 1_600_000_000))
    document = read(over_folder("code", tmp_path), cache)["lib/a.h"]
    assert (document.path, document.title, document.language) == ("lib/a.h", "a.h", "cpp")
    assert document.text == "namespace a { class B; }\n"
    assert document.author is None
    assert document.last_modified == datetime.fromtimestamp(1_600_000_000, UTC)


def test_a_script_without_extension_is_of_a_language_by_its_first_line(tmp_path, cache):
    for name, content in {
        "tool": "#!/usr/bin/env python3\n",
        "LICENSE": "free",
        "prose": "#! nothing",
    }.items():
        (tmp_path / name).write_text(content)
        (tmp_path / name).chmod(0o755)
    (tmp_path / "not_executable").write_text("#!/bin/sh\n")
    documents = read(over_folder("code", tmp_path), cache)
    languages = {uri: document.language for uri, document in documents.items()}
    assert languages == {"tool": "python", "prose": None, "not_executable": "bash"}
    assert set(listed(over_folder("code", tmp_path, languages=["python"]), cache)) == {"tool"}
    assert listed(over_folder("code", tmp_path, languages=["bash"]), cache) == {}


def test_an_empty_file_is_skipped_as_empty(tmp_path, cache):
    (tmp_path / "__init__.py").touch()
    assert listed(over_folder("code", tmp_path), cache)["__init__.py"].skip == "empty"


def test_markdown_takes_readmes_and_what_is_written_for_people(tmp_path, cache):
    names = ["README", "readme.txt", "README.md", "README.zh-CN", "a.rst", "b.mdx", "c.markdown"]
    for name in [*names, "notes.txt", "README.png", "README.py", "d.html"]:
        (tmp_path / name).write_text("# Title\n")
    assert set(listed(over_folder("markdown", tmp_path), cache)) == set(names)


def test_a_folder_is_read_once_and_each_of_its_files_looked_at_once_however_many_there_are(tmp_path, cache):
    def of(folders: int) -> Path:
        root = tmp_path / f"of-{folders}"
        for folder in range(folders):
            (root / f"folder{folder}").mkdir(parents=True)
            for file in range(100):
                (root / f"folder{folder}/file{file}.py").write_text("x")
        (root / ".gitignore").write_text("*.pyc\nbuild/\n/x\n")
        return root

    def taken(root: Path) -> int:
        return steps(lambda: listed(over_folder("code", root), cache))

    few, many = of(5), of(20)
    asked = calls(lambda: listed(over_folder("code", many), cache))
    assert (asked["scandir"], asked["DirEntry.stat"]) == (21, 2_000)
    assert asked["lstat"] + asked["stat"] < 100  # one of each folder, for its `.git`, and of the root
    with audited("open") as opened:
        assert len(listed(over_folder("code", many), cache)) == 2_000
    assert not [path for _, (path, *_) in opened if os.fsdecode(path).endswith(".py")]
    assert taken(many) <= 5 * taken(few)

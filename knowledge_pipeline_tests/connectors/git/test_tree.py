"""Files of a git repository at a branch's tip."""

from datetime import UTC, datetime

import pytest

from knowledge_pipeline.connectors.files import ListingMemory
from knowledge_pipeline.connectors.registry import list_branches, open_source
from knowledge_pipeline.errors import DocumentSkipped, SourceRefused
from knowledge_pipeline_tests.connectors.files.test_local import ODD
from knowledge_pipeline_tests.connectors.repositories import START, Repository, listed, over_git, read


def test_a_document_knows_who_last_touched_it_and_when(repository, cache):
    repository.write({"a.py": "1", "b.py": "1"}).commit(author="Grace Höpper", when=START)
    repository.write({"a.py": "2"}).commit(author="Ada", when=START + 60)
    documents = read(over_git("code", repository.root), cache)
    told = {uri: (document.author, document.last_modified) for uri, document in documents.items()}
    assert told == {
        "a.py": ("Ada", datetime.fromtimestamp(START + 60, UTC)),
        "b.py": ("Grace Höpper", datetime.fromtimestamp(START, UTC)),
    }
    assert documents["a.py"].text == "2"


def test_an_item_can_be_read_by_a_source_that_did_not_list_it(repository, cache):
    repository.write({"sub/100%.py": "text"}).commit()
    source = over_git("code", repository.root)
    [item] = listed(source, cache).values()
    with open_source(source, cache=cache) as another:
        assert another.fetch(item).author == "Ada Byron"


def test_a_revision_changes_with_content_or_with_the_commit_that_made_it(repository, cache):
    source = over_git("code", repository.root)
    repository.write({"a.py": "1", "b.py": "1"}).commit()
    first = listed(source, cache)
    repository.write({"a.py": "2"}).commit()
    second = listed(source, cache)
    repository.write({"a.py": "1"}).commit()
    third = listed(source, cache)
    assert first["b.py"] == second["b.py"] == third["b.py"]
    assert len({listing["a.py"].revision for listing in (first, second, third)}) == 3
    assert listed(source, cache) == third


def test_a_file_that_got_its_content_back_has_its_newest_commit(repository, cache):
    source, memory = over_git("code", repository.root), ListingMemory()
    repository.write({"a.py": "1", "b.py": "1"}).commit()
    first = listed(source, cache, memory)
    repository.write({"a.py": "2"}).commit()
    repository.write({"a.py": "1"}).commit()
    second = listed(source, cache, memory)
    assert first["b.py"] == second["b.py"]
    assert first["a.py"].revision != second["a.py"].revision
    assert listed(source, cache) == second  # as another process lists it


def test_a_listing_goes_on_from_the_one_that_its_memory_is_of(repository, cache):
    source, memory = over_git("code", repository.root), ListingMemory()
    repository.write({"a.py": "1", "b.py": "1"}).commit()
    first = listed(source, cache, memory)
    repository.write({"a.py": "2"}).commit()
    second = listed(source, cache, memory)
    assert second["b.py"] is first["b.py"]
    assert second["a.py"] is not first["a.py"]
    assert listed(source, cache)["b.py"] is not first["b.py"], "nothing is remembered beside it"


def test_each_branch_is_read_at_its_own_tip(repository, cache):
    repository.write({"a.py": "main"}).commit()
    repository.git("checkout", "-q", "-b", "feature/-x")
    repository.write({"a.py": "feature", "b.py": "feature"}).commit()
    repository.git("checkout", "-q", "main")
    assert read(over_git("code", repository.root), cache)["a.py"].text == "main"
    documents = read(over_git("code", repository.root, branch="feature/-x"), cache)
    assert {document.text for document in documents.values()} == {"feature"}


def test_a_branch_that_does_not_exist_is_refused_with_those_that_do(repository, cache):
    repository.commit()
    repository.git("branch", "develop")
    for name in ("nope", "--all", "main^", "refs/heads/main", "a b"):
        with pytest.raises(SourceRefused, match=r"set connection\.branch to one of develop, main"):
            listed(over_git("code", repository.root, branch=name), cache)


def test_the_default_branch_is_followed_when_the_remote_changes_it(repository, cache):
    repository.write({"old.py": "1"}).commit()
    assert set(listed(over_git("code", repository.root), cache)) == {"old.py"}
    repository.git("checkout", "-q", "-b", "trunk")
    repository.git("mv", "old.py", "new.py")
    repository.commit()
    repository.git("branch", "-q", "-D", "main")
    assert set(listed(over_git("code", repository.root), cache)) == {"new.py"}


def test_a_repository_without_commits_has_no_files(repository, cache):
    assert listed(over_git("code", repository.root), cache) == {}
    repository.write({"a.py": "1"}).commit()
    assert set(listed(over_git("code", repository.root), cache)) == {"a.py"}


def test_a_head_that_names_no_branch_is_refused_where_there_are_branches(repository, cache):
    repository.write({"a.py": "1"}).commit()
    repository.git("symbolic-ref", "HEAD", "refs/heads/gone")
    with pytest.raises(
        SourceRefused, match=r"no branch that its HEAD names: set connection\.branch to one of main"
    ):
        listed(over_git("code", repository.root), cache)


def test_submodules_and_links_are_skipped_with_their_reason(repository, cache, tmp_path):
    inner = Repository(tmp_path / "inner")
    inner.write({"c.py": "1"}).commit()
    repository.write({"a.py": "1"})
    (repository.root / "link.py").symlink_to("a.py")
    (repository.root / "link.txt").symlink_to("a.py")
    repository.git(
        "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(inner.root), "libs/inner"
    )
    repository.commit()
    listing = listed(over_git("code", repository.root), cache)
    assert {uri: item.skip for uri, item in listing.items()} == {
        "a.py": None,
        "link.py": "symbolic link, not followed",
        "libs/inner": "git submodule; declare it as a source of its own",
    }


def test_a_pointer_of_git_lfs_is_skipped(repository, cache):
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 12345\n"
    repository.write({"model.py": pointer}).commit()
    with pytest.raises(DocumentSkipped, match="Git LFS pointer; the content is not in the repository"):
        read(over_git("code", repository.root), cache)


def test_too_large_and_empty_files_are_skipped_in_the_listing(repository, cache):
    repository.write({"large.py": "x" * 101, "exact.py": "x" * 100, "empty.py": ""}).commit()
    listing = listed(over_git("code", repository.root, max_bytes=100), cache)
    reasons = {uri: item.skip for uri, item in listing.items()}
    assert reasons == {"large.py": "larger than 100 bytes (101)", "exact.py": None, "empty.py": "empty"}


def test_sources_of_one_repository_list_it_each_in_its_way_again_and_again(repository, cache):
    repository.write({"large.py": "x" * 101, "run": "#!/bin/sh\n", "notes": "text", "a.md": "#"})
    for name in ("run", "notes"):
        (repository.root / name).chmod(0o755)
    repository.commit()
    sources = [over_git("code", repository.root, max_bytes=limit) for limit in (100, 200)]
    sources.append(over_git("markdown", repository.root))
    whole = [
        {"large.py": "larger than 100 bytes (101)", "notes": None, "run": None},
        {"large.py": None, "notes": None, "run": None},
        {"a.md": None},
    ]
    for _ in range(2):
        listings = [listed(source, cache) for source in sources]
        assert [{uri: item.skip for uri, item in each.items()} for each in listings] == whole
    repository.write({"run": "no script any more", "notes": "#!/bin/sh\n", "large.py": "x"}).commit()
    for source in sources[:2]:
        assert {uri: item.skip for uri, item in listed(source, cache).items()} == {
            "large.py": None,
            "notes": None,
            "run": None,
        }


def test_every_odd_name_is_listed_and_read(repository, cache):
    import os

    for number, name in enumerate(ODD):
        (repository.root / os.fsdecode(name)).write_text(f"number {number}")
    repository.commit()
    documents = read(over_git("code", repository.root), cache)
    assert {document.text for document in documents.values()} == {f"number {n}" for n in range(len(ODD))}
    assert {document.author for document in documents.values()} == {"Ada Byron"}


def test_a_script_without_extension_is_code_by_its_first_line(repository, cache):
    repository.write({"tool": "#!/bin/sh\n", "other": "text", "large": "#!/bin/sh\n" + "x" * 100_000})
    for name in ("tool", "other"):
        (repository.root / name).chmod(0o755)
    repository.commit()
    documents = read(over_git("code", repository.root), cache)
    languages = {"tool": "bash", "other": None, "large": "bash"}
    assert {uri: document.language for uri, document in documents.items()} == languages
    assert set(listed(over_git("code", repository.root, languages=["bash"]), cache)) == {"tool"}


def test_a_name_in_another_encoding_is_read(repository, cache):
    repository.write({"a.py": "1"})
    repository.git("add", "-A")
    name = {"GIT_AUTHOR_NAME": b"Jos\xe9".decode("utf-8", "surrogateescape")}
    repository.git("-c", "i18n.commitEncoding=ISO-8859-1", "commit", "-q", "-m", "x", **name)
    assert read(over_git("code", repository.root), cache)["a.py"].author == "José"


def test_a_commit_from_an_impossible_time_has_no_date(repository, cache):
    repository.write({"a.py": "1"}).commit()
    raw = repository.git("cat-file", "commit", "HEAD").replace(f" {repository.clock} ", " 99999999999999 ")
    commit = repository.git(
        "hash-object", "-t", "commit", "-w", "--stdin", "--literally", stdin=f"{raw}\n".encode()
    )
    repository.git("update-ref", "refs/heads/main", commit)
    assert read(over_git("code", repository.root), cache)["a.py"].last_modified is None


def test_a_source_can_be_listed_again_while_it_is_open(repository, cache):
    repository.write({"a.py": "1"}).commit()
    with open_source(over_git("code", repository.root), cache=cache) as source:
        first = [source.fetch(item).text for item in source.discover()]
        repository.write({"a.py": "2"}).commit()
        assert (first, [source.fetch(item).text for item in source.discover()]) == (["1"], ["2"])


def test_further_branches_add_what_the_branch_has_not(repository, cache):
    repository.write({"a.py": "1", "b.py": "1", "c.md": "1"}).commit()
    for name in ("next/1", "next/2", "other"):
        repository.git("checkout", "-q", "-B", name, "main")
        repository.write({"a.py": "2", "notes.md": name}).commit(author=f"Of {name}")
    repository.git("checkout", "-q", "next/2")
    repository.git("rm", "-q", "b.py")
    repository.write({"100%.py": "3"}).commit()
    alone = listed(over_git("code", repository.root, branch="main"), cache)
    source = over_git("code", repository.root, branch="main", branches=["next/*", "main"])
    items = listed(source, cache)
    second, third = (repository.git("rev-parse", f"next/2:{path}") for path in ("a.py", "100%.py"))
    assert items.keys() - alone.keys() == {f"a.py%@{second}", f"100%25.py%@{third}"}
    assert alone.keys() - items.keys() == set()
    assert {uri for uri in alone if items[uri] == alone[uri]} == set()  # both lack one of them
    documents = read(source, cache)
    told = {uri: (each.path, each.text, each.author, each.metadata) for uri, each in documents.items()}
    assert told == {
        "a.py": ("a.py", "1", "Ada Byron", {"not_in_branches": ["next/1", "next/2"]}),
        "b.py": ("b.py", "1", "Ada Byron", {"not_in_branches": ["next/2"]}),
        f"a.py%@{second}": ("a.py", "2", "Of next/1", {"in_branches": ["next/1", "next/2"]}),
        f"100%25.py%@{third}": ("100%.py", "3", "Ada Byron", {"in_branches": ["next/2"]}),
    }
    with open_source(source, cache=cache) as opened:
        assert list(opened.discover()) and list_branches(opened) == ("next/1", "next/2")


def test_a_further_branch_that_moves_leaves_the_items_of_what_stays(repository, cache):
    repository.write({"a.py": "1", "b.py": "1"}).commit()
    source = over_git("code", repository.root, branches=["next"])
    alone = listed(over_git("code", repository.root), cache)
    repository.git("checkout", "-q", "-b", "next")
    assert listed(source, cache) == alone
    repository.write({"a.py": "2"}).commit()
    first = listed(source, cache)
    repository.write({"c.md": "no code"}).commit()
    assert listed(source, cache) == first
    assert first["b.py"] == alone["b.py"]
    assert first["a.py"].revision != alone["a.py"].revision


def test_what_cannot_be_read_is_no_variant(repository, cache):
    repository.write({"a.py": "1"}).commit()
    repository.git("checkout", "-q", "-b", "next")
    (repository.root / "link.py").symlink_to("a.py")
    repository.write({"empty.py": "", "large.py": "x" * 100, "fits.py": "x"}).commit()
    repository.git("checkout", "-q", "main")
    items = listed(over_git("code", repository.root, branches=["next"], max_bytes=50), cache)
    assert {uri.partition("%@")[0] for uri in items} == {"a.py", "fits.py"}

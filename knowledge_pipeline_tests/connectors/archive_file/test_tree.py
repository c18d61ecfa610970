"""Archives as trees of files: of each format, at each place, whole or damaged, friendly or not."""

from __future__ import annotations

import gzip
import io
import random
import stat
import struct
import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from pathspec import GitIgnoreSpec

from knowledge_pipeline.config.connections import ArchiveFileConnection
from knowledge_pipeline.connectors import archive_file
from knowledge_pipeline.connectors.archive_file import NESTED_REASON, ArchiveTree
from knowledge_pipeline.connectors.base import pausing_by
from knowledge_pipeline.connectors.files import (
    NOT_REGULAR_REASON,
    SYMLINK_REASON,
    FileSource,
    build_filter,
    read_text,
)
from knowledge_pipeline.connectors.patterns import SELECTION_DEFAULTS, FileSelection
from knowledge_pipeline.connectors.specifications import SpecificationTree
from knowledge_pipeline.errors import DocumentSkipped, SourceRefused, SourceUnavailable
from knowledge_pipeline.records import Item
from knowledge_pipeline_tests.fakes.archives import FORMS, pack
from knowledge_pipeline_tests.fakes.bucket.s3_server import S3Bucket

KEY = "exports/a.zip"


@pytest.fixture(autouse=True)
def no_waits() -> Iterator[None]:
    with pausing_by(lambda _: None):
        yield


def source_of(
    place: Path | S3Bucket, cache: Path, *, include: str = "*.md", openapi: bool = False
) -> FileSource:
    if isinstance(place, Path):
        connection = ArchiveFileConnection(type="archive_file", path=place)
    else:
        at = place.connection.model_copy(update={"prefix": KEY})
        connection = ArchiveFileConnection(type="archive_file", object=at)
    chosen = GitIgnoreSpec.from_lines([include])
    selection = FileSelection(
        SELECTION_DEFAULTS["markdown"], chosen, GitIgnoreSpec.from_lines(["secret/"]), frozenset(), False
    )
    tree = ArchiveTree(connection, selection, cache=cache)
    accepts = build_filter("files", tree, selection)
    return FileSource(
        SpecificationTree(tree, 1000) if openapi else tree, accepts, read_text, lambda _: "1", 1000
    )


def listed(place: Path | S3Bucket, cache: Path, **options: Any) -> dict[str, Item]:
    with source_of(place, cache, **options) as source:
        items = list(source.discover())
    assert len({item.uri for item in items}) == len(items)
    return {item.uri: item for item in items}


def read(place: Path | S3Bucket, cache: Path, **options: Any) -> dict[str, str]:
    with source_of(place, cache, **options) as source:
        return {item.uri: source.fetch(item).text for item in source.discover() if item.skip is None}


def skipped(place: Path, cache: Path) -> dict[str, str | None]:
    return {uri: item.skip for uri, item in listed(place, cache, include="*").items() if item.skip}


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return tmp_path / "a.zip"


@pytest.mark.parametrize("form", FORMS)
def test_every_wanted_file_is_listed_and_read_below_the_folder_that_holds_all(form, archive, tmp_path):
    files = {
        "engine-2/guide.md": b"# Guide",
        "engine-2/a/b.md": b"text",
        "engine-2/a/b.png": b"\x00",
        "engine-2/secret/c.md": b"text",
        "engine-2/empty.md": b"",
        "engine-2/large.md": b"x" * 1001,
        "__MACOSX/engine-2/guide.md": b"the Finder's",
    }
    archive.write_bytes(pack(form, files))
    assert read(archive, tmp_path) == {"guide.md": "# Guide", "a/b.md": "text"}
    found = listed(archive, tmp_path)
    assert (found["empty.md"].skip, found["large.md"].skip) == ("empty", "larger than 1000 bytes (1001)")
    archive.write_bytes(pack(form, {**files, "other.md": b"beside"}))
    assert set(read(archive, tmp_path)) == {"engine-2/guide.md", "engine-2/a/b.md", "other.md"}


@pytest.mark.parametrize("form", FORMS)
def test_packed_again_only_what_has_another_content_is_another_revision(form, archive, tmp_path):
    archive.write_bytes(pack(form, {"v1/a.md": b"one", "v1/b.md": b"two", "v1/c.md": b"three"}))
    before = listed(archive, tmp_path)
    archive.write_bytes(pack(form, {"v2/c.md": b"three", "v2/b.md": b"four", "v2/a.md": b"one"}, mtime=9))
    after = listed(archive, tmp_path)
    assert {uri for uri in before if before[uri].revision != after[uri].revision} == {"b.md"}
    assert read(archive, tmp_path)["b.md"] == "four"


@pytest.mark.sampled
@pytest.mark.parametrize("form", FORMS)
def test_an_object_that_did_not_change_costs_one_call(form, s3, tmp_path):
    files = {f"{number}.yaml": b"openapi: 3.1.0\n" if number % 2 else b"a: 1\n" for number in range(20)}
    s3.create(KEY, pack(form, files))
    with source_of(s3, tmp_path, include="*.yaml", openapi=True) as source:
        first = list(source.discover())
        assert len(first) == 10
        s3.requests.clear()
        assert list(source.discover()) == first
        assert [(request.method, "list-type" in request.query) for request in s3.requests] == [("GET", True)]
        s3.create(KEY, pack(form, {**files, "1.yaml": b"a: 2\n"}))
        assert len(list(source.discover())) == 9


def test_of_a_large_zip_in_a_bucket_its_directory_and_what_changed_are_read(s3, tmp_path, monkeypatch):
    monkeypatch.setattr(archive_file, "ZIP_BLOCK_BYTES", 10_000)
    noise = {f"{number}.bin": random.Random(number).randbytes(20_000) for number in range(20)}
    s3.create(KEY, pack("zip", {"a.md": b"one", **noise, "b.md": b"two"}))
    with source_of(s3, tmp_path) as source:
        assert [source.fetch(item).text for item in source.discover()] == ["one", "two"]
        s3.create(KEY, pack("zip", {"a.md": b"one", **noise, "b.md": b"three"}))
        s3.requests.clear()
        _, changed = source.discover()
        assert source.fetch(changed).text == "three"
    ranges = [request.headers.get("range", "").removeprefix("bytes=") for request in s3.requests]
    asked = sum(int(each.partition("-")[2]) - int(each.partition("-")[0]) for each in ranges if each)
    assert len(ranges) <= 9 and asked < 40_000, "of four hundred thousand bytes"


def test_what_leads_out_of_an_archive_is_skipped_and_nothing_is_written(archive, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    bad = ["../up.md", "/top.md", "C:\\x.md", "a/../../b.md", "..\\up.md", "\\\\host\\x.md", "a\\..\\b.md"]
    for form in FORMS:
        archive.write_bytes(pack(form, {**dict.fromkeys(bad, b"text"), "ok/./a//b.md": b"fine"}))
        found = skipped(archive, tmp_path / "cache")
        assert set(found) == set(bad) and set(found.values()) == {archive_file.OUTSIDE_REASON}
        assert read(archive, tmp_path / "cache") == {"a/b.md": "fine"}, "below the folder that holds all"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.zip", "cache"]


def test_links_devices_and_holes_of_a_tar_are_skipped(archive, tmp_path):
    with tarfile.open(archive, "w") as packed:
        for name, kind in {
            "link.md": tarfile.SYMTYPE,
            "hard.md": tarfile.LNKTYPE,
            "pipe.md": tarfile.FIFOTYPE,
            "disk.md": tarfile.BLKTYPE,
            "folder.md": tarfile.DIRTYPE,
        }.items():
            header = tarfile.TarInfo(name)
            header.type, header.linkname = kind, "/etc/passwd"
            packed.addfile(header)
        header = tarfile.TarInfo("a.md")
        header.size = 4
        packed.addfile(header, io.BytesIO(b"text"))
    assert skipped(archive, tmp_path) == {
        "link.md": SYMLINK_REASON,
        "hard.md": archive_file.HARD_LINK_REASON,
        "pipe.md": NOT_REGULAR_REASON,
        "disk.md": NOT_REGULAR_REASON,
    }
    assert read(archive, tmp_path) == {"a.md": "text"}


def test_what_of_a_zip_cannot_be_read_is_skipped_with_the_reason(archive, tmp_path):
    with zipfile.ZipFile(archive, "w") as packed:
        link = zipfile.ZipInfo("link.md")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        packed.writestr(link, "/etc/passwd")
        packed.writestr("inner.zip", pack("zip", {"a.md": b"text"}))
        packed.writestr("secret/inner.tar.gz", b"")
        packed.writestr("bz.md", "text", zipfile.ZIP_BZIP2)
        packed.writestr("locked.md", "text")
    content = bytearray(archive.read_bytes())
    at = content.rfind(b"PK\x01\x02", 0, content.rfind(b"locked.md"))
    content[at + 8] |= 1  # the flag of a password
    archive.write_bytes(content)
    assert skipped(archive, tmp_path) == {
        "link.md": SYMLINK_REASON,
        "inner.zip": NESTED_REASON,
        "bz.md": "packed by method 12 of ZIP, which is not read; known are store and deflate",
        "locked.md": archive_file.ENCRYPTED_REASON,
    }


def test_names_in_other_encodings_are_kept_apart_and_read(archive, tmp_path):
    packed = pack("zip", {"caf_.md": b"one", "th__.md": b"two"})
    packed = packed.replace(b"caf_.md", b"caf\x82.md").replace(b"th__.md", "thé.md".encode())
    archive.write_bytes(packed)  # code page 437, and UTF-8 that is not marked as such
    assert read(archive, tmp_path) == {"café.md": "one", "thé.md": "two"}
    with tarfile.open(archive, "w", format=tarfile.GNU_FORMAT, encoding="latin-1") as old:
        for name in ("café.md", "cafê.md"):
            header = tarfile.TarInfo(name)
            header.size = 4
            old.addfile(header, io.BytesIO(b"text"))
    assert set(read(archive, tmp_path)) == {"caf%E9.md", "caf%EA.md"}


def test_of_a_name_that_comes_twice_the_last_counts(archive, tmp_path):
    for form in FORMS:
        one, two = pack("tar", {"a.md": b"one"}), pack("tar", {"./a.md": b"two"})
        if form == "zip":
            archive.write_bytes(pack(form, {"a.md": b"one", "./a.md": b"two"}))
        else:
            both = one[:1024] + two
            archive.write_bytes(gzip.compress(both) if form == "tar.gz" else both)
        assert read(archive, tmp_path) == {"a.md": "two"}


FILES: Mapping[str, bytes] = {f"{number}.md": b"# Text %d\n" % number * 20 for number in range(8)}


@pytest.mark.parametrize("form", FORMS)
def test_an_archive_that_breaks_off_is_refused_wherever_it_does(form, archive, tmp_path):
    whole = pack(form, FILES)
    end = len(whole.rstrip(b"\0")) if form == "tar" else len(whole)
    for cut in {*range(0, end, max(1, end // 40)), end - 1, *range(512, end, 512)}:
        archive.write_bytes(whole[:cut])
        with pytest.raises(
            SourceRefused, match=r"a\.zip is damaged, or no ZIP or TAR archive .*: replace it$"
        ):
            listed(archive, tmp_path / "none")


@pytest.mark.parametrize("form", FORMS)
def test_a_damaged_archive_gives_no_wrong_text_and_one_sentence(form, archive, tmp_path):
    whole, seed = pack(form, FILES), random.Random(7)
    texts = {content.decode() for content in FILES.values()}
    for _ in range(60):
        damaged = bytearray(whole)
        for _ in range(seed.choice([1, 1, 4])):
            damaged[seed.randrange(len(whole))] = seed.randrange(256)
        archive.write_bytes(damaged)
        try:
            found = read(archive, tmp_path / "none")
        except (SourceRefused, SourceUnavailable, DocumentSkipped) as error:
            assert "\n" not in str(error)
        else:  # in a TAR no checksum knows of it: what is read is what it says
            assert form == "tar" or set(found.values()) <= texts


@pytest.mark.parametrize(
    "content", [b"", b"PK", b"PK\x03\x04", b"\x1f\x8b", b"# A page", gzip.compress(b"# A page", mtime=0)]
)
def test_what_is_no_archive_is_refused(content, archive, tmp_path):
    archive.write_bytes(content)
    with pytest.raises(SourceRefused, match="no ZIP or TAR archive"):
        listed(archive, tmp_path)


def test_an_archive_that_is_not_there_or_a_folder_is_refused(archive, tmp_path):
    with pytest.raises(SourceRefused, match=r"does not exist: correct connection\.path"):
        listed(archive, tmp_path)
    with pytest.raises(SourceRefused, match=r"is no file: .* type local for a folder"):
        listed(tmp_path, tmp_path)


def test_an_object_whose_key_only_begins_like_it_is_another(s3, tmp_path):
    s3.create(f"{KEY}.old", "another")
    with pytest.raises(SourceRefused, match=r"does not exist: correct connection\.object\.prefix"):
        listed(s3, tmp_path)


@pytest.mark.parametrize("form", FORMS)
def test_an_archive_that_unpacks_to_far_too_much_is_refused(form, archive, tmp_path, monkeypatch):
    archive.write_bytes(pack(form, {"a.md": b"x" * 400_000, "b.md": b"text"}))
    monkeypatch.setattr(archive_file, "_SMALL_BYTES", 1000)
    if form != "tar":
        with pytest.raises(SourceRefused, match="unpacks to more than 200 times its size"):
            listed(archive, tmp_path)
    monkeypatch.setattr(archive_file, "MAX_RATIO", 10_000)
    monkeypatch.setattr(archive_file, "MAX_UNPACKED_BYTES", 300_000)
    with pytest.raises(SourceRefused, match="unpacks to more than 300,000 bytes"):
        listed(archive, tmp_path)
    monkeypatch.setattr(archive_file, "MAX_UNPACKED_BYTES", 500_000)
    monkeypatch.setattr(archive_file, "MAX_FILES", 1)
    with pytest.raises(SourceRefused, match="holds more than 1 files"):
        listed(archive, tmp_path)


def test_no_header_of_a_tar_and_no_directory_of_a_zip_fills_the_memory(archive, tmp_path, monkeypatch):
    header = tarfile.TarInfo("x")
    header.type, header.size = tarfile.XHDTYPE, 8_000_000_000
    archive.write_bytes(gzip.compress(header.tobuf() + b"\0" * 100_000))
    with pytest.raises(SourceRefused, match="a header of 8000000000 bytes"):
        listed(archive, tmp_path)
    monkeypatch.setattr(archive_file, "_MAX_DIRECTORY_BYTES", 300)
    archive.write_bytes(pack("zip", FILES))
    with pytest.raises(SourceRefused, match="its directory has"):
        listed(archive, tmp_path)


def test_a_zip_that_says_less_than_it_unpacks_to_is_damaged(archive, tmp_path):
    content = bytearray(pack("zip", {"a.md": b"x" * 100_000}))
    at = content.rfind(b"PK\x01\x02")
    content[at + 24 : at + 28] = struct.pack("<I", 10)
    archive.write_bytes(content)
    with source_of(archive, tmp_path) as source:
        [item] = source.discover()
        with pytest.raises(SourceRefused, match="is damaged"):
            source.fetch(item)


@pytest.mark.parametrize("form", FORMS)
def test_an_archive_that_is_replaced_while_it_is_read_is_unavailable(form, archive, tmp_path):
    archive.write_bytes(pack(form, FILES))
    with source_of(archive, tmp_path) as source:
        items = list(source.discover())
    archive.unlink()  # as a new file in its place
    archive.write_bytes(pack(form, {name: content[::-1] for name, content in FILES.items()}))
    with (
        source_of(archive, tmp_path) as source,
        pytest.raises(SourceUnavailable, match="changed while it was"),
    ):
        source.fetch(items[3])


def test_a_kept_listing_that_cannot_be_read_is_made_again(archive, tmp_path):
    archive.write_bytes(pack("zip", FILES))
    before = listed(archive, tmp_path)
    [kept] = (tmp_path / "archives").iterdir()
    for content in (b"", b"[]", b"{}", b'{"version": 1}', kept.read_bytes()[:-9]):
        kept.write_bytes(content)
        assert listed(archive, tmp_path) == before
    assert len(list((tmp_path / "archives").iterdir())) == 1


def test_a_program_without_an_extension_is_wanted_as_in_a_folder(archive, tmp_path):
    for form in FORMS:
        archive.write_bytes(
            pack(form, {"bin/run": b"#!/bin/sh\n", "bin/data": b"\x00"}, executable=("bin/run",))
        )
        connection = ArchiveFileConnection(type="archive_file", path=archive)
        selection = FileSelection(
            SELECTION_DEFAULTS["code"], None, GitIgnoreSpec.from_lines([]), frozenset({"bash"}), True
        )
        tree = ArchiveTree(connection, selection, cache=tmp_path)
        [entry] = tree.list_entries()
        assert entry.path == "run" and tree.read_head(entry, 5) == b"#!/bi"
        tree.close()

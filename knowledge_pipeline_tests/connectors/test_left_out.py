"""What a source of files leaves out by default, how that is counted, and text of unknown names."""

from __future__ import annotations

import pytest

from knowledge_pipeline.connectors.files import ListingMemory
from knowledge_pipeline.connectors.registry import list_notes, open_source
from knowledge_pipeline.errors import DocumentSkipped
from knowledge_pipeline_tests.connectors.repositories import Repository, listed, over_folder, over_git, read


@pytest.fixture
def repository(tmp_path):
    return Repository(tmp_path / "repository")


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"


def notes(source, cache, memory=None):
    with open_source(source, cache=cache, memory=memory) as opened:
        list(opened.discover())
        return dict(list_notes(opened))


def test_text_of_unknown_names_is_read(repository, cache):
    texts = {
        "Views/Index.cshtml": ("@page", "razor"),
        "templates/cart.twig": ("{{ cart }}", "twig"),
        "shop.module": ("<?php\nfunction shop_menu() {}\n", "php"),
        "mixins.inc": ("; a part of something else", None),
        "BUILD": ("cc_library(name = 'a')", "bazel"),
        "Procfile": ("web: serve", "procfile"),
        "requirements-dev.txt": ("pytest>=9", "text"),
        "Shop.csproj": ("<Project/>", "xml"),
        "Shop.props": ('<?xml version="1.0"?><Project/>', "xml"),
        "res/layout.xml": ("<LinearLayout/>", "xml"),
    }
    repository.write({name: text for name, (text, _) in texts.items()})
    for large in ("dump.xml", "dump.unknown"):
        repository.write({large: "x" * 100_001})
    repository.write({".hidden": "x", "README.md": "#", "data.csv": "1", "a.png": b"\0", "yarn.lock": "x"})
    repository.commit()
    wanted = {name: language for name, (_, language) in texts.items()}
    counted = (
        "files of other formats (1 .png, 1 .csv, 1 .xml over 100 kB, 1 .md, 1 .unknown over 100 kB, 1 .lock)"
    )
    for source in (over_folder("code", repository.root), over_git("code", repository.root)):
        documents = read(source, cache)
        assert {uri: document.language for uri, document in documents.items()} == wanted
        [(note, count)] = notes(source, cache).items()
        assert (sorted(note), count) == (sorted(counted), 6)
    assert set(listed(over_folder("code", repository.root, languages=["twig"]), cache)) == {
        "templates/cart.twig"
    }


def test_what_is_no_text_is_skipped_with_the_reason(repository, cache):
    repository.write({"model.unknown": b"\x89\0\1"})
    with open_source(over_folder("code", repository.root), cache=cache) as source:
        [item] = source.discover()
        with pytest.raises(DocumentSkipped, match=r"^binary file$"):
            source.fetch(item)


def test_links_whose_names_no_reader_takes_are_counted(repository, cache):
    repository.write({"src/a.py": "1", "mine/b.py": "1", ".gitignore": "ignored\n"})
    for link in ("current", "latest", "notes.unknown", ".hidden", "mine/link", "ignored", "link.py"):
        (repository.root / link).symlink_to(repository.root / "src")
    repository.commit()
    counted = {"files that are symbolic links (2 without an ending, 1 .unknown)": 3}
    memory = ListingMemory()
    assert notes(over_folder("code", repository.root, exclude=["mine/"]), cache) == counted
    for _ in range(2):
        assert notes(over_git("code", repository.root, exclude=["mine/"]), cache, memory) == counted
    assert notes(over_git("code", repository.root, include=["src/"]), cache) == {}


def test_files_in_folders_that_are_left_out_are_counted(repository, cache):
    repository.write({f"node_modules/x/{number}.js": "1" for number in range(3)})
    repository.write(
        {"web/vendor/jquery.js": "1", "web/vendor/logo.png": b"\0", "mine/a.py": "1", "a.py": "1"}
    )
    repository.write({".gitignore": "dist/\n"}).commit()
    of_git, memory = over_git("code", repository.root, exclude=["mine/"]), ListingMemory()
    for _ in range(2):
        assert notes(of_git, cache, memory) == {
            "files in folders left out by default (3 in node_modules, 1 in web/vendor)": 4
        }
    repository.write({"dist/a.js": "1"})
    of_folder = over_folder("code", repository.root, exclude=["mine/"])
    assert notes(of_folder, cache) == {
        "folders left out by default, not counted (node_modules, web/vendor)": 2
    }
    both = over_folder("code", repository.root, exclude=["!node_modules/", "!vendor/"])
    assert notes(both, cache) == {"file of another format (1 .png)": 1}


def test_a_package_of_java_is_read_whatever_its_name(repository, cache):
    packages = [
        "com/acme/vendor/VendorService.java",
        "app/src/main/kotlin/dist/Dist.kt",
        "src/main/java/com/acme/vendor/third_party/A.java",
    ]
    others = [
        "vendor/com/acme/A.java",
        "src/main/resources/vendor/a.js",
        "src/vendor/a.js",
        "com/acme/node_modules/a.js",
    ]
    repository.write(dict.fromkeys([*packages, *others], "x")).commit()
    for source in (over_folder("code", repository.root), over_git("code", repository.root)):
        assert set(listed(source, cache)) == set(packages)

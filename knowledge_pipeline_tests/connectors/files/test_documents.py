"""Titles, languages, and which YAML and JSON files are OpenAPI."""

import pytest

from knowledge_pipeline.connectors.files import extract_title
from knowledge_pipeline_tests.connectors.repositories import listed, over_folder, over_git, read

SPECS = {
    "api.yaml": "openapi: 3.1.0\ninfo: {title: Pets}\n",
    "late.yml": "# comment\n" * 1000 + "info:\n  title: x\n'openapi': '3.0.0'\n",
    "swagger.json": '{"info": {}, "swagger": "2.0"}',
    "small.json": '{"openapi":"3.0.3"}',
}
OTHERS = {
    "compose.yaml": "services:\n  openapi: 3\n",
    "package.json": '{"dependencies": {"openapi": "^1.0"}}',
    "openapi.yaml": "components: {}\n",
    "openapi.md": "openapi: 3.1.0\n",
    "far.yaml": "#" * 70_000 + "\nopenapi: 3.1.0\n",
}


@pytest.mark.parametrize("over", [over_folder, over_git])
def test_openapi_lists_what_says_that_it_is(repository, cache, over):
    repository.write({**SPECS, **OTHERS}).commit()
    assert set(listed(over("openapi", repository.root), cache)) == set(SPECS)


@pytest.mark.parametrize("over", [over_folder, over_git])
def test_text_files_of_documentation_are_listed_where_they_are_markup(repository, cache, over):
    page = "========\nQuerySet\n========\n\n.. class:: QuerySet\n"
    others = {
        "docs/words.txt": "abc\n",
        "docs/CMakeLists.txt": page,
        "data/a.txt": page,
        "docs.txt": page,
    }
    pages = {"docs/ref/querysets.txt": page, "Documentation/guide.txt": page, "sub/doc/README.txt": "Plain\n"}
    repository.write({**pages, **others}).commit()
    assert set(listed(over("markdown", repository.root), cache)) == set(pages)
    document = read(over("markdown", repository.root), cache)["docs/ref/querysets.txt"]
    assert (document.title, document.language) == ("QuerySet", "rst")


def test_patterns_choose_text_files_whatever_is_in_them(repository, cache):
    repository.write({"docs/words.txt": "abc\n", "docs/a.md": "# A\n"})
    assert set(listed(over_folder("markdown", repository.root, include=["*.txt"]), cache)) == {
        "docs/words.txt"
    }


def test_a_large_specification_is_not_left_out_in_silence(repository, cache):
    repository.write({"api.json": '{"openapi": "3.0.0", "x": "' + "x" * 6_000_000 + '"}'}).commit()
    [item] = listed(over_git("openapi", repository.root), cache).values()
    assert item.skip is not None
    assert item.skip.startswith("larger than 5000000 bytes (60000")


def test_the_language_comes_from_name_and_content(repository, cache):
    repository.write({"README.md": "# Hello\n", "guide.rst": "Guide\n=====\n", "README": "Plain words\n"})
    documents = read(over_folder("markdown", repository.root), cache)
    told = {uri: (document.title, document.language) for uri, document in documents.items()}
    assert told == {
        "README.md": ("Hello", "markdown"),
        "guide.rst": ("Guide", "rst"),
        "README": ("README", "text"),
    }


@pytest.mark.parametrize(
    "text", ["# " + " " * 2_000_000 + "x", "# " + "](" * 1_000_000, "#" * 2_000_000, "![" * 1_000_000]
)
def test_however_long_a_line_is_it_is_looked_at_for_a_title(text):
    """What grew with the square of the length would take an hour; the tests' time limit ends it."""
    assert extract_title("a.md", text, "markdown") == "a.md"


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("# Title #\n", "Title"),
        ("text\n\n## Second *level*\n", "Second level"),
        ("Title\n=====\n", "Title"),
        ("Title\n---\n", "Title"),
        ("---\ntitle: 'From front matter'\ntags: [a]\n---\n# Heading\n", "From front matter"),
        ("---\nlayout: x\n---\n# Heading\n", "Heading"),
        ("```sh\n# comment\n```\n# Real\n", "Real"),
        ("~~~~\n```\n# no\n~~~~\n# Real\n", "Real"),
        ("# [Link](https://example.org) and `code` <b>x</b>\n", "Link and code x"),
        ("#\n# Named\n", "Named"),
        ("#hashtag\n", "doc.md"),
        ("    # indented code\n", "doc.md"),
        ("no heading\n", "doc.md"),
        ("", "doc.md"),
    ],
)
def test_markdown_is_titled_by_its_first_heading(text, title):
    assert extract_title("sub/doc.md", text, "markdown") == title


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("Title\n=====\n\ntext", "Title"),
        ("=====\nTitle\n=====\n", "Title"),
        (".. _label:\n\nTitle here\n----------\n", "Title here"),
        (".. comment\n   more\n\n``Code``\n========\n", "Code"),
        ("text alone\n", "doc.rst"),
    ],
)
def test_restructured_text_is_titled_by_its_first_heading(text, title):
    assert extract_title("doc.rst", text, "rst") == title

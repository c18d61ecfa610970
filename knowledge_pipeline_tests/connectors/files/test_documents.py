"""Titles, languages, and which YAML and JSON files are OpenAPI."""

from contextlib import suppress

import pytest
from pydantic import ValidationError

from knowledge_pipeline.connectors.registry import open_source
from knowledge_pipeline.connectors.titles import extract_title
from knowledge_pipeline.errors import DocumentSkipped
from knowledge_pipeline_tests.connectors.repositories import listed, over_folder, over_git, read

SPECS = {
    "api.yaml": "openapi: 3.1.0\ninfo: {title: Pets}\n",
    "late.yml": "# comment\n" * 1000 + "info:\n  title: x\n'openapi': '3.0.0'\n",
    "swagger.json": '{"info": {}, "swagger": "2.0"}',
    "small.json": '{"openapi":"3.0.3"}',
    "sorted.json": '{"components": "' + "x" * 200_000 + '", "openapi": "3.0.3"}',
    "far.yaml": "#" * 70_000 + "\nopenapi: 3.1.0\n",
}
OTHERS = {
    "compose.yaml": "services:\n  openapi: 3\n",
    "package.json": '{"dependencies": {"openapi": "^1.0"}}',
    "openapi.yaml": "components: {}\n",
    "openapi.md": "openapi: 3.1.0\n",
    "nested.json": '{"examples": [{"openapi": "3.0.3"}]}',
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
    "text",
    [
        "# " + " " * 2_000_000 + "x",
        "# " + "](" * 1_000_000,
        "#" * 2_000_000,
        "![" * 1_000_000,
        "<h1>\n" * 400_000,
    ],
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
        ("---\ntitle: >-\n  A title that\n  is folded\n---\n# Heading\n", "A title that is folded"),
        ("---\ntitle: 'It''s here'\n---\n", "It's here"),
        ("---\ntitle: Not: valid\n---\n# Heading\n", "Not: valid"),
        ("---\nsub:\n  title: not this\n---\n# Heading\n", "Heading"),
        ('+++\ntitle = "From TOML"\n[extra]\ntitle = "no"\n+++\n# Heading\n', "From TOML"),
        ("# Search &amp; `find` &lt;T&gt;\n", "Search & find <T>"),
        ("# List<T> and `Map<K, V>` <!-- here --><a name='x'></a>\n", "List<T> and Map<K, V>"),
        ('<p><img src="x"></p>\n\n<h1 align="center">\n  <b>My</b> &amp; tool\n</h1>\n\n## Install\n',
         "My & tool"),
        ('<div>\n<h1><img src="logo.svg" alt="My tool"></h1>\n</div>\n\n## Install\n', "My tool"),
        ("```html\n<h1>no</h1>\n```\n# Real\n", "Real"),
        ("<h1>never closed\n\n# Real\n", "Real"),
        ("#\n# Named\n", "Named"),
        ("#hashtag\n", "doc.md"),
        ("    # indented code\n", "doc.md"),
        ("no heading\n", "doc.md"),
        ("", "doc.md"),
    ],
)  # fmt: skip
def test_markdown_is_titled_by_its_first_heading(text, title):
    assert extract_title("sub/doc.md", text, "markdown") == title


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("Title\n=====\n\ntext", "Title"),
        ("=====\nTitle\n=====\n", "Title"),
        (".. _label:\n\nTitle here\n----------\n", "Title here"),
        (".. comment\n   more\n\n``Code``\n========\n", "Code"),
        ("The `guide <guide.html>`_ for <NAME>\n===================\n", "The guide_ for <NAME>"),
        ("Go\n==\n\ntext\n\nLater\n=====\n", "Go"),
        ("==\nGo\n==\n", "Go"),
        ("Longer\n==\n\nTitle\n=====\n", "Title"),
        ("PEP: 8\nTitle: Style Guide\n    for Python Code\nStatus: Active\n\nIntroduction\n============\n",
         "PEP 8 \u2013 Style Guide for Python Code"),
        ("text alone\n", "doc.rst"),
    ],
)  # fmt: skip
def test_restructured_text_is_titled_by_its_first_heading(text, title):
    assert extract_title("doc.rst", text, "rst") == title


def readable(source, cache):
    documents = {}
    with open_source(source, cache=cache) as opened:
        for item in list(opened.discover()):
            with suppress(DocumentSkipped):
                documents[item.uri] = opened.fetch(item)
    return documents


TEXT = "Die Größe für Müller – 5 €\n"


@pytest.mark.parametrize("over", [over_folder, over_git])
@pytest.mark.parametrize(("type_", "name"), [("code", "a.py"), ("markdown", "a.md")])
def test_a_source_says_which_encoding_its_files_have(repository, cache, over, type_, name):
    files = {
        name: f"# {TEXT}".encode("cp1252"),
        f"utf8_{name}": f"# {TEXT}",
        f"bad_{name}": f"# {TEXT}".encode() + b"\xc3",
    }
    repository.write(files).commit()
    without, configured = (
        over(type_, repository.root, **settings) for settings in ({}, {"encoding": "iso-8859-1"})
    )
    assert set(readable(without, cache)) == {f"utf8_{name}", f"bad_{name}"}
    documents = readable(configured, cache)
    assert documents[name].text == documents[f"utf8_{name}"].text == f"# {TEXT}"
    assert [documents[each].metadata.get("note") for each in (name, f"utf8_{name}")] == [None, None]
    bad = readable(without, cache)[f"bad_{name}"]
    assert bad.text == f"# {TEXT}\ufffd"
    assert bad.metadata["note"] == "not valid UTF-8 at 1 place, which reads \ufffd"
    revisions = [listed(source, cache)[name].revision for source in (without, configured)]
    assert revisions[0] != revisions[1]  # so that a new key reads files again


@pytest.mark.parametrize("type_", ["files", "archive"])
def test_documents_and_archives_have_an_encoding_too(repository, cache, type_):
    names = ["a.md"] if type_ == "archive" else ["a.txt", "a.csv", "a.html"]
    repository.write({name: f"{TEXT}1,2\n".encode("cp1252") for name in names})
    assert readable(over_folder(type_, repository.root), cache) == {}
    documents = readable(over_folder(type_, repository.root, encoding="windows-1252"), cache)
    assert {name for name in documents if TEXT.strip() in documents[name].text} == {*names}


def test_a_page_is_in_the_encoding_that_it_declares(repository, cache):
    pages = {"gb2312": "gb18030", "x-sjis": "cp932", "iso-2022-jp": "iso2022_jp", "ks_c_5601-1987": "cp949"}
    texts = {
        "gb2312": "镕基的数据库",
        "x-sjis": "①サーバ",
        "iso-2022-jp": "サーバ",
        "ks_c_5601-1987": "똠방각하",
    }
    html = '<html><head><meta charset="{}"></head><body><p>{}</p></body></html>'
    repository.write({f"{each}.html": html.format(each, texts[each]).encode(pages[each]) for each in pages})
    documents = readable(over_folder("files", repository.root), cache)
    assert {name.removesuffix(".html"): each.text for name, each in documents.items()} == texts
    assert not any("note" in each.metadata for each in documents.values())


def test_an_unknown_encoding_is_refused(repository):
    for type_ in ("code", "files", "archive"):
        with pytest.raises(ValidationError, match="found an unknown encoding; allowed: a label such as"):
            over_folder(type_, repository.root, encoding="latin-17")


def test_a_field_of_csv_that_is_longer_than_those_of_pythons_reader_is_read(repository, cache):
    long = "word " * 60_000  # Python's limit is 131,072 characters
    repository.write({"rows.csv": f'id,text\n1,before\n2,"{long}end"\n3,after\n'})
    repository.write({"rows.tsv": f"id\ttext\n1\t{long}end\n2\tafter\n"})
    documents = readable(over_folder("files", repository.root), cache)
    for name in ("rows.csv", "rows.tsv"):
        assert f"{long}end" in documents[name].text and "after" in documents[name].text
        assert "note" not in documents[name].metadata
    repository.write({"rows.csv": "id,text\n1,before\n2,after\n" + f'3,"{"x" * 1_000_001}"\n4,last\n'})
    cut = readable(over_folder("files", repository.root), cache)["rows.csv"]
    assert "before" in cut.text and "cut after a million characters" in cut.metadata["note"]

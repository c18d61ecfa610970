"""Minified code and encoded data are told from text by what they consist of."""

from __future__ import annotations

import base64
import hashlib

import pytest

from knowledge_pipeline.chunking.blocks import is_blob
from knowledge_pipeline.chunking.registry import chunk_document
from knowledge_pipeline.records import Chunk
from knowledge_pipeline_tests.chunking.documents import document, source, tokenize

NOISE = b"".join(hashlib.sha256(bytes([n])).digest() for n in range(200))
ENCODED = base64.b64encode(NOISE).decode()
MINIFIED = "".join(f"function f{n}(e,t){{return e.g{n}(t)?null:new r(e[{n}],t)}}" for n in range(200))
PROSE = "This sentence has nine words and ends right here. " * 40


def cut(text: str, path: str, language: str | None) -> list[Chunk]:
    of = document(text, path, language)
    return chunk_document(of, source("code"), tokenize=tokenize, model_tokens=256)


@pytest.mark.parametrize(
    "text",
    [ENCODED, MINIFIED, base64.encodebytes(NOISE).decode(), f"url(data:image/png;base64,{ENCODED})"],
    ids=["base64", "minified", "base64 in lines", "data URI"],
)
def test_what_is_no_text_is_known_by_its_content(text):
    assert is_blob(text)


@pytest.mark.parametrize(
    "text",
    [
        PROSE,
        MINIFIED[:400],
        "".join(f"x{n} = call({n})\n" for n in range(200)),
        "".join(f"https://example.org/a/long/path/to/the/page/number/{n}/of/this/site\n" for n in range(40)),
        PROSE[:200] + "https://example.org/?" + "q=" * 400,
        "\u4f60\u597d\u3002\u518d\u89c1\uff01" * 200,
        "const x = [" + "'some words in a string', " * 400 + "];",
        "\ud800 word " * 200,
    ],
    ids=["prose", "short", "code", "addresses", "a long address", "Chinese", "a table", "surrogates"],
)
def test_text_is_no_blob(text):
    assert not is_blob(text)


def test_an_image_within_a_style_sheet_is_left_out_and_the_rules_around_it_are_not():
    rules = "".join(f".class-{n} {{\n  color: red;\n}}\n" for n in range(30))
    chunks = cut(
        f"{rules}.logo {{\n  background: url(data:image/png;base64,{ENCODED});\n}}\n{rules}", "a.css", "css"
    )
    text = "".join(chunk.text for chunk in chunks)
    assert text.count(".class-") == 60 and ".logo" in text
    assert len(text) < 2 * len(rules) + 2000
    assert {chunk.metadata["note"] for chunk in chunks} == {"minified code or encoded data is left out"}


def test_a_minified_file_is_found_by_its_path_alone():
    (chunk,) = cut(MINIFIED, "static/app.js", "javascript")
    assert MINIFIED.startswith(chunk.text)
    assert chunk.header.startswith("static/app.js")
    assert chunk.metadata["note"] == "minified code or encoded data is left out"


@pytest.mark.parametrize(
    "row",
    [
        "0x30e349b1, 0xc288cab2, 0xd1d83946, ",
        "-146.28125, 231.7421875, ",
        '"U+81a4-81a5,U+fabe", ',
        "3, 255, ",
    ],
    ids=["hexadecimal", "decimal", "ranges", "small"],
)
def test_a_table_of_numbers_keeps_its_beginning_and_what_is_around_it(row):
    table = "".join(f"    {row * 3}\n" for _ in range(400))
    function = "export function check(value) {\n  return value;\n}\n"
    text = f"// Of the check.\nconst table = [\n{table}];\n\n{function}"
    chunks = cut(text, "src/check.ts", "typescript")
    assert "const table" in chunks[0].text and "return value" in chunks[-1].text
    assert len(chunks) <= 3


def test_numbers_are_kept_where_they_are_the_content():
    text = "".join(f"{n},{n * 7},{n * 11},{n * 13}\n" for n in range(400))
    assert "".join(cut(text, "measured.csv", "csv")[-1].text.split()).endswith("399,2793,4389,5187")


def test_lines_of_base64_in_quotes_are_left_out():
    lines = "".join(f'            "{ENCODED[at : at + 60]}",\n' for at in range(0, 6000, 60))
    call = f"        Convert(string.Concat(\n{lines}        ));\n"
    text = f"class Store {{\n    void Load() {{\n{call}    }}\n}}\n"
    chunks = cut(text, "src/Store.cs", "c_sharp")
    assert chunks[0].text.startswith("class Store") and len(chunks) <= 2


@pytest.mark.parametrize(
    ("path", "language"),
    [("deps/frozen.toml", "toml"), ("deps/frozen.json", "json"), ("deps/sums", "go_module")],
)
def test_a_lock_file_of_any_name_is_left_to_its_name(path, language):
    sums = [hashlib.sha256(bytes([n])).hexdigest() for n in range(200)]
    text = "".join(
        f'"package-{n}" = {{ version = "1.{n}.0", hash = "sha256:{sum}" }}\n' for n, sum in enumerate(sums)
    )
    (chunk,) = cut(text, path, language)
    assert chunk.header.startswith(path) and "package-0" in chunk.text
    assert chunk.metadata["note"] == "minified code or encoded data is left out"


def test_a_changelog_with_links_to_commits_is_kept():
    sums = [hashlib.sha1(bytes([n])).hexdigest() for n in range(100)]
    text = "# Changes\n\n" + "".join(
        f"* fix number {n} ([{sum[:7]}](../commit/{sum}))\n" for n, sum in enumerate(sums)
    )
    chunks = chunk_document(
        document(text, "CHANGES.md"), source("markdown"), tokenize=tokenize, model_tokens=256
    )
    assert "fix number 99" in chunks[-1].text


def test_a_bundle_in_one_line_is_left_to_its_name_though_it_has_words():
    text = "/*! app */\n" + "".join(f'm[{n}]="This is message number {n} of the page";' for n in range(400))
    (chunk,) = cut(text, "static/app.js", "javascript")
    assert text.startswith(chunk.text)


def test_compact_json_is_kept():
    text = "{" + ",".join(f'"key{n}":{{"value":{n},"name":"number{n}"}}' for n in range(200)) + "}"
    chunks = cut(text, "package.json", "json")
    assert "".join(chunk.text for chunk in chunks) == text
    assert not any("note" in chunk.metadata for chunk in chunks)


COMMAND = f"curl -H 'Authorization: Bearer {ENCODED[:1200]}' https://example.org"
PICTURE = f"![A plot](data:image/png;base64,{ENCODED[:2000]})"


@pytest.mark.parametrize(
    "after",
    [
        "```bash\nsudo systemctl restart nginx\n```",
        "Then run this:\n\n```python\nstart=restart(1)\n```",
        "Restart it.",
    ],
)
@pytest.mark.parametrize("long", [f"```\n{COMMAND}\n```", PICTURE], ids=["a long command", "a picture"])
@pytest.mark.parametrize("more", (0, 24))
def test_what_follows_a_line_without_end_is_kept(long, after, more):
    text = f"# Guide\n\nFirst of all.{' More.' * more}\n\n{long}\n\n{after}\n\n## End\n\nThe last words.\n"
    kept = "".join(chunk.text for chunk in chunk_document(
        document(text), source("markdown"), tokenize=tokenize, model_tokens=256
    ))  # fmt: skip
    assert after in kept and "First of all." in kept and "The last words." in kept

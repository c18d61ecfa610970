"""How code is cut: what becomes a chunk, what it is called, and what an edit leaves alone."""

from __future__ import annotations

import json

import pytest

from knowledge_pipeline.chunking.code import CODE_METADATA_KEYS
from knowledge_pipeline.records import Chunk
from knowledge_pipeline.syntax import grammars
from knowledge_pipeline_tests.chunking.code_samples import (
    CORPUS,
    FILES,
    WITHOUT_FUNCTIONS,
    code_chunks,
    sample,
    uncovered,
)

STORE = '''\
"""Keeps things."""

import json

LIMIT = 3


class Store(Base):
    """Holds things by key.

    For long.
    """

    kept: dict

    def get(self, key):
        return self.kept[key]

    def put(self, key, value):
        self.kept[key] = json.dumps(value)


def main():
    Store().put(1, 2)


def other():
    return LIMIT
'''


def anchors(text: str, language: str = "python", **settings: object) -> list[str]:
    return [chunk.anchor for chunk in code_chunks(text, language, **settings)]


def identities(chunks: list[Chunk]) -> set[tuple[str, str]]:
    """What ids are made from."""
    return {(chunk.anchor, chunk.text) for chunk in chunks}


@pytest.mark.parametrize(
    ("granularity", "expected"),
    [
        ("file", ["constant LIMIT, class Store, function main, function other"]),
        ("class", ["constant LIMIT", "class Store", "function main, function other"]),
        ("function", ["constant LIMIT", "class Store", "function main", "function other"]),
        (
            "method",
            [
                "constant LIMIT",
                "class Store",
                "class Store/method get",
                "class Store/method put",
                "function main",
                "function other",
            ],
        ),
    ],
)
def test_granularity_says_which_definitions_are_chunks(granularity, expected):
    assert anchors(STORE, granularity=granularity) == expected


def test_a_class_that_does_not_fit_is_split_at_its_methods():
    chunks = code_chunks(STORE, granularity="class", max_tokens=40)
    assert [chunk.anchor for chunk in chunks if chunk.anchor.startswith("class")] == [
        "class Store",
        "class Store/method put",
    ]
    assert "def get" in chunks[1].text


def test_small_siblings_are_merged_up_to_the_minimum():
    text = "".join(f"def f{n}():\n    return {n}\n\n\n" for n in range(6))
    chunks = code_chunks(text, min_tokens=14)
    assert [chunk.anchor for chunk in chunks] == [
        "function f0, function f1",
        "function f2, function f3",
        "function f4, function f5",
    ]
    assert chunks[0].metadata["symbols"] == ["f0", "f1"]


def test_methods_are_not_merged_with_what_is_outside_of_their_class():
    chunks = code_chunks(STORE, min_tokens=20)
    assert [chunk.anchor for chunk in chunks] == [
        "constant LIMIT",
        "class Store",  # with the small method after its head
        "class Store/method put",
        "function main, function other",
    ]


def test_decorators_comments_and_attributes_stay_with_their_definition():
    text = "import a\n\n# about nothing\n\n# about f\n@cached\n@slow(1,\n      2)\ndef f():\n    pass\n"
    assert [chunk.text for chunk in code_chunks(text)] == [
        "import a\n\n# about nothing",
        "# about f\n@cached\n@slow(1,\n      2)\ndef f():\n    pass",
    ]
    rust = "fn a() {}\n\n/// About B.\n#[derive(Debug)]\n#[repr(C)]\nstruct B {\n    x: u8,\n}\n"
    assert code_chunks(rust, "rust")[1].text == rust[rust.index("///") :].strip()


def test_comments_that_stand_alone_can_be_left_out():
    text = "# licence\n\n\ndef f():\n    # inside\n    pass\n\n\n# TODO\n\n\n# about g\ndef g():\n    pass\n"
    chunks = code_chunks(text, include_comments=False)
    assert uncovered(text, chunks) == "#licence#TODO"
    assert chunks[0].text == "def f():\n    # inside\n    pass"
    assert chunks[1].text.startswith("# about g")


def test_what_is_left_out_is_not_merged_back_in():
    text = "A = 1\n\n# note\n\nB = 2\n"
    chunks = code_chunks(text, include_comments=False, min_tokens=20)
    assert [chunk.text for chunk in chunks] == ["A = 1", "B = 2"]


def test_the_head_of_a_definition_joins_what_it_opens():
    body = "".join(f"        call({n}, {n})\n" for n in range(40))
    text = f"class Store:\n    def fill(self):\n{body}"
    chunks = code_chunks(text, max_tokens=100, min_tokens=20)
    assert chunks[0].text.startswith("class Store:\n    def fill(self):\n        call(0, 0)")
    assert (chunks[0].anchor, chunks[0].metadata["symbols"]) == ("class Store", ["Store", "Store.fill"])
    assert {chunk.anchor for chunk in chunks[1:]} == {"class Store/method fill"}


def test_guards_and_namespaces_are_no_chunks():
    body = "".join(f"  call({n}, {n});\n" for n in range(12))
    functions = "\n".join(f"void f{n}() {{\n{body}}}\n" for n in range(3))
    namespace = f"namespace a {{\n\n{functions}\n}}  // namespace a\n"
    text = f"#ifndef A_H_\n#define A_H_\n\n{namespace}\n#endif  // A_H_\n"
    chunks = code_chunks(text, "cpp", max_tokens=130, min_tokens=40)
    assert [chunk.metadata["symbol"] for chunk in chunks] == ["a.f0", "a.f1", "a.f2"]
    assert chunks[0].text.startswith("#ifndef") and chunks[2].text.endswith("#endif  // A_H_")
    assert uncovered(text, chunks) == ""


def test_a_line_at_the_top_level_joins_the_definition_beside_it():
    body = "".join(f"  call({n}, {n});\n" for n in range(12))
    text = f"function wrap() {{\n{body}}}\n\nmodule.exports = wrap;\n"
    (chunk,) = code_chunks(text, "javascript", max_tokens=130, min_tokens=40)
    assert (chunk.anchor, chunk.text) == ("function wrap", text.strip())


def test_a_small_definition_between_large_ones_is_a_chunk():
    large = "def f{n}():\n" + "".join(f"    call({n}, {n})\n" for n in range(16))
    text = f"{large.format(n=1)}\n\nclass Busy(Error):\n    pass\n\n\n{large.format(n=2)}"
    assert anchors(text, max_tokens=105, min_tokens=40) == ["function f1", "class Busy", "function f2"]


def test_the_last_part_of_a_function_is_not_a_scrap():
    for statements in range(20, 40):
        chunks = code_chunks(long_function(statements), max_tokens=100, min_tokens=40)
        assert min(chunk.tokens for chunk in chunks) >= 32
        assert uncovered(long_function(statements), chunks) == ""


def test_a_heading_of_rulers_is_no_chunk():
    ruler = f"// {'-' * 77}\n"
    body = "".join(f"  call({n}, {n});\n" for n in range(12))
    one, two = (f"export function f{n}() {{\n{body}}}\n" for n in (1, 2))
    for heading in (f"{ruler}// base64\n{ruler}", ruler):
        chunks = code_chunks(f"{one}\n{heading}\n{two}", "typescript", max_tokens=300, min_tokens=40)
        assert [chunk.text.strip() for chunk in chunks] == [one.strip(), f"{heading}\n{two}".strip()]
        assert chunks[1].metadata["symbol"] == "f2"


def test_a_closing_directive_stays_with_what_it_closes():
    body = "".join(f"        call({n}, {n})\n" for n in range(12))
    one, two = (f"    func f{n}() {{\n{body}    }}\n" for n in (1, 2))
    text = f"class Store {{\n    #if os(macOS)\n{one}    #endif\n\n{two}}}\n"
    chunks = code_chunks(text, "swift", max_tokens=130, min_tokens=40)
    assert [chunk.text.rpartition("\n")[2].strip() for chunk in chunks] == ["#endif", "}"]
    assert chunks[1].text.startswith("func f2()")


LICENCE = "# Copyright 2020 Somebody\n# Licensed under the Apache License\n# See the file LICENSE\n"


def test_the_licence_of_a_file_joins_imports_and_no_definition():
    assert [
        chunk.text for chunk in code_chunks(f"{LICENCE}\nimport a\n\nclass B:\n    x: int\n", min_tokens=40)
    ] == [
        f"{LICENCE}\nimport a",
        "class B:\n    x: int",
    ]
    assert code_chunks(f"{LICENCE}class B:\n    x: int\n", min_tokens=40)[1].text == "class B:\n    x: int"


def test_a_comment_of_three_lines_that_is_no_licence_belongs_to_its_definition():
    text = "# Holds numbers.\n# Of all kinds.\n# For long.\nclass B:\n    x: int\n"
    assert [chunk.text for chunk in code_chunks(text, min_tokens=40)] == [text.strip()]


def test_the_licence_is_not_the_doc_line_of_what_follows_it():
    licence = LICENCE.replace("#", "//")
    body = "".join(f"  call({n}, {n});\n" for n in range(40))
    text = f"{licence}\n// Fills it.\nvoid fill() {{\n{body}}}\n"
    chunks = code_chunks(text, "cpp", max_tokens=100)
    assert {chunk.header.splitlines()[-1] for chunk in chunks if chunk.anchor == "function fill"} == {
        "void fill()",
        "Fills it.",
    }
    guarded = (
        f"{licence}#ifndef A\n#define A\nnamespace a {{\n{body.replace('  call', 'int x = call')}}}\n#endif\n"
    )
    assert not any("Copyright" in chunk.header for chunk in code_chunks(guarded, "cpp", max_tokens=100))


def test_a_comment_stays_with_the_statement_that_it_explains():
    arms = "\n".join(f"        // Why {n} is so.\n        {n} -> call({n}, {n})" for n in range(40))
    text = f"fun choose(x: Int) {{\n    when (x) {{\n{arms}\n    }}\n}}\n"
    chunks = code_chunks(text, "kotlin", max_tokens=100, min_tokens=40)
    assert len(chunks) > 3
    assert all("//" not in chunk.text.splitlines()[-1] for chunk in chunks)


def long_function(statements: int, start: str = "x") -> str:
    body = "".join(f"    {start}{n} = call({n}, {n})\n" for n in range(statements))
    return f'def long(a: int) -> None:\n    """Does a lot."""\n{body}'


def test_an_oversized_function_is_split_between_statements():
    text = long_function(40)
    chunks = code_chunks(text, max_tokens=100)
    assert len(chunks) > 3
    assert all(chunk.anchor == "function long" for chunk in chunks)
    assert all(line.startswith("    x") for chunk in chunks[1:] for line in chunk.text.splitlines()[1:])
    assert all(chunk.text.startswith("x") and chunk.text.endswith(")") for chunk in chunks[1:])
    assert all(chunk.metadata["symbol"] == "long" for chunk in chunks)
    assert [chunk.metadata.get("symbols") for chunk in chunks[:2]] == [["long"], None]


def test_a_continuation_carries_signature_and_first_doc_line_in_its_header():
    _, second, *_ = code_chunks(long_function(40), path="src/a.py", max_tokens=100)
    assert second.header == "src/a.py\ndef long(a: int) -> None\nDoes a lot."


def test_a_continuation_carries_the_name_alone_when_asked_to():
    first, second, *_ = code_chunks(
        long_function(40), path="src/a.py", max_tokens=100, preserve_signatures=False
    )
    assert first.header == "src/a.py\ndef long(a: int) -> None"
    assert second.header == "src/a.py\nfunction long"


def test_the_doc_line_is_also_taken_from_a_comment():
    body = "".join(f"  call({n}, {n});\n" for n in range(30))
    text = f"/**\n * Does a lot.\n * And more.\n */\nexport function long() {{\n{body}}}\n"
    assert code_chunks(text, "javascript", max_tokens=100)[1].header.endswith("\nDoes a lot.")


def test_headers_name_path_scope_and_signature():
    chunk = code_chunks(STORE, path="src/store.py")[2]
    assert chunk.header == "src/store.py\nclass Store(Base)\ndef get(self, key)"


def test_long_headers_keep_the_path_s_end_and_the_innermost_signature():
    text = f"class {'A' * 90}:\n    def f(self, {'b' * 200}):\n        return 1\n"
    header = code_chunks(text, path="folder/" * 30 + "last.py")[1].header
    path, signature = header.split("\n")
    assert path.startswith("…") and path.endswith("/folder/last.py")
    assert signature.startswith("def f(self, bbb") and signature.endswith("…")


@pytest.mark.parametrize("language", sorted(FILES.keys() - WITHOUT_FUNCTIONS))
def test_an_edit_in_one_function_leaves_the_others_alone(language):
    text = sample(language)
    before = code_chunks(text, language, max_tokens=1000)
    functions = [chunk for chunk in before if "function_name" in chunk.metadata and "\n" in chunk.text]
    target = functions[len(functions) // 2]
    at = target.start_char + target.text.index("\n")
    hashes = dict.fromkeys(("python", "ruby", "bash", "elixir", "powershell"), "# edited")
    dashes = dict.fromkeys(("lua", "haskell", "sql"), "-- edited")
    comment = {**hashes, **dashes, "ocaml": "(* edited *)"}.get(language, "// edited")
    edited = text[:at] + f" {comment}" + text[at:]
    after = code_chunks(edited, language, max_tokens=1000)
    changed = {(chunk.anchor, chunk.text) for chunk in before} ^ {
        (chunk.anchor, chunk.text) for chunk in after
    }
    assert {anchor for anchor, _ in changed} == {target.anchor}
    assert len(changed) == 2


def test_a_function_put_in_between_leaves_the_others_alone():
    functions = [f"def f{n}():\n    return call({n})\n\n\n" for n in range(5)]
    before = code_chunks("".join(functions), min_tokens=5)
    after = code_chunks(
        "".join([*functions[:2], "def new():\n    return 1\n\n\n", *functions[2:]]), min_tokens=5
    )
    added = [(chunk.anchor, chunk.text) for chunk in after if chunk.anchor == "function new"]
    assert {(chunk.anchor, chunk.text) for chunk in before} | set(added) == {
        (chunk.anchor, chunk.text) for chunk in after
    }


def test_equal_functions_get_different_anchors():
    assert anchors("def f():\n    pass\n\n\n" * 3) == ["function f", "function f (2)", "function f (3)"]


def test_an_implementation_is_told_from_another_by_its_trait():
    text = "impl A for X {\n    fn f() {}\n}\n\nimpl B for X {\n    fn f() {}\n}\n"
    assert anchors(text, "rust") == [
        "impl A for X",
        "impl A for X/method f",
        "impl B for X",
        "impl B for X/method f",
    ]


def test_definitions_within_conditions_and_include_guards_are_found():
    functions = "int f(void)\n{\n    return 1;\n}\n\nint g(void)\n{\n    return 2;\n}\n"
    guarded = f"#ifndef A\n#define A\n\n{functions}\n#endif\n"
    assert anchors(guarded, "c") == ["module", "function f", "function g"]
    text = "if a:\n    def f():\n        return 1\nelse:\n    def f():\n        return 2\n"
    assert anchors(text) == ["module", "function f", "function f"]


def test_metadata_of_a_method():
    metadata = code_chunks(STORE)[3].metadata
    assert metadata == {
        "symbol": "Store.put",
        "symbol_kind": "method",
        "class_name": "Store",
        "function_name": "put",
        "symbols": ["Store.put"],
        "imports": ["json"],
        "dependencies": ["json"],
        "complexity": 1,
    }


def test_a_chunk_of_several_definitions_lists_their_kinds_and_classes():
    text = "LIMIT = 3\n\n\nclass Outer:\n    class Inner:\n        def get(self):\n            return LIMIT\n"
    (chunk,) = code_chunks(text, granularity="file")
    assert chunk.metadata["symbol_kind"] == "class"
    assert chunk.metadata["kinds"] == ["class", "constant", "method"]
    assert chunk.metadata["classes"] == ["Outer", "Outer.Inner"]
    (alone,) = code_chunks("def f():\n    return 1\n")
    assert alone.metadata["symbol_kind"] == "function" and not {"kinds", "classes"} & alone.metadata.keys()


def test_metadata_of_a_class():
    metadata = code_chunks(STORE, granularity="class")[1].metadata
    assert metadata == {
        "symbol": "Store",
        "symbol_kind": "class",
        "class_name": "Store",
        "implements": ["Base"],
        "methods": ["get", "put"],
        "symbols": ["Store", "Store.get", "Store.put"],
        "kinds": ["class", "method"],
        "imports": ["json"],
        "exports": ["Store"],
        "dependencies": ["json"],
        "complexity": 1,
    }


def test_exports_follow_the_list_that_a_module_gives():
    text = '__all__ = ["f"]\n\n\ndef f():\n    pass\n\n\ndef g():\n    pass\n'
    assert [chunk.metadata.get("exports") for chunk in code_chunks(text)] == [None, ["f"], None]
    text = "function f() {\n  1;\n}\nfunction g() {\n  2;\n}\nexport { f };\n"
    assert [chunk.metadata.get("exports") for chunk in code_chunks(text, "javascript")] == [["f"], None, None]


def test_a_part_of_a_function_has_the_complexity_of_the_whole():
    body = "".join(f"    if a > {n}:\n        call({n})\n" for n in range(20))
    chunks = code_chunks(f"def f(a):\n{body}", max_tokens=60)
    assert len(chunks) > 2
    assert {chunk.metadata["complexity"] for chunk in chunks} == {21}


def test_metadata_is_json_under_the_known_keys():
    for language in FILES:
        for chunk in code_chunks(sample(language), language):
            assert json.loads(json.dumps(dict(chunk.metadata))) == dict(chunk.metadata)
            assert set(chunk.metadata) <= set(CODE_METADATA_KEYS)


def test_offsets_count_characters_where_bytes_differ():
    text = "".join(f"def größe_{n}():\n    return '🐍 € {n}'\n\n\n" for n in range(300))
    chunks = code_chunks(text)
    assert [chunk.metadata["symbol"] for chunk in chunks] == [f"größe_{n}" for n in range(300)]
    assert all(chunk.text.startswith("def größe_") and chunk.text.endswith("'") for chunk in chunks)


def test_any_character_may_stand_in_a_shell_script():
    text = "grüße() {\n  echo 'é'\n}\n\n{\U00031860\U000df2fb"  # which end the process in the grammar itself
    chunks = code_chunks(text, "bash", min_tokens=1)
    assert chunks[0].text.startswith("grüße() {") and "grüße" in chunks[0].anchor
    assert uncovered(text, chunks) == ""


def test_a_file_that_does_not_parse_is_cut_by_lines_and_says_so():
    chunks = code_chunks("(" * 300 + "\n" + "]] ++ def )( \n" * 50, max_tokens=50)
    assert len(chunks) > 3
    assert {chunk.metadata["note"] for chunk in chunks} == {"could not be parsed as python; cut by lines"}


def test_a_syntax_error_costs_only_its_surroundings():
    text = STORE + "\n\ndef broken(:\n    return ][\n\n\ndef after():\n    return 1\n"
    chunks = code_chunks(text)
    found = {symbol for chunk in chunks for symbol in chunk.metadata.get("symbols", ())}
    assert {"Store", "Store.get", "Store.put", "main", "other", "after"} <= found
    assert not any("note" in chunk.metadata for chunk in chunks)


def test_definitions_within_one_large_error_are_used():
    functions = "".join(f"int f{n}(void)\n{{\n    return {n};\n}}\n\n" for n in range(20))
    chunks = code_chunks(f'extern "C" {{\nBEGIN_MACRO(\n\n{functions}', "cpp")
    found = {symbol for chunk in chunks for symbol in chunk.metadata.get("symbols", ())}
    assert len(found & {f"f{n}" for n in range(20)}) >= 19
    assert not any("note" in chunk.metadata for chunk in chunks)


def test_a_parse_that_takes_too_many_steps_is_given_up(monkeypatch):
    monkeypatch.setattr(grammars, "_MIN_PROGRESS_REPORTS", 0)
    monkeypatch.setattr(grammars, "_PROGRESS_REPORTS_PER_BYTE", 0.001)
    chunks = code_chunks(STORE * 20)
    assert {chunk.metadata["note"] for chunk in chunks} == {"could not be parsed as python; cut by lines"}
    assert uncovered(STORE * 20, chunks) == ""
    monkeypatch.undo()
    assert "note" not in code_chunks(STORE * 20)[0].metadata


@pytest.mark.parametrize("language", [None, "nim"])
def test_a_language_without_a_grammar_is_cut_by_lines(language):
    chunks = code_chunks("local a = 1\n" * 40, language, path="src/a.nim", max_tokens=20)
    assert len(chunks) > 5
    assert chunks[0].text.count("\n") == 4
    assert all(chunk.header == "src/a.nim" and not chunk.metadata for chunk in chunks)


@pytest.mark.parametrize("text", ["", " \n\t\n", "\n"])
def test_an_empty_file_has_no_chunk(text):
    assert code_chunks(text) == []


@pytest.mark.parametrize("text", ["x", ";", "# only a comment", "\ufeff", "\ufeffx = 1"])
def test_a_file_of_almost_nothing_is_one_chunk(text):
    assert [chunk.text for chunk in code_chunks(text)] == [text]


@pytest.mark.parametrize(
    "text",
    [
        "x = " + "(" * 10_000 + ")" * 10_000,
        "x = " + "(\n" * 10_000 + ")\n" * 10_000,
        "(" * 10_000,
        "".join(" " * depth + "if x:\n" for depth in range(400)) + " " * 400 + "y\n",
    ],
    ids=["one line", "many lines", "unclosed", "blocks"],
)
def test_deep_nesting_is_no_problem(text):
    chunks = code_chunks(text, max_tokens=200)
    assert uncovered(text, chunks) == ""
    assert max(chunk.tokens for chunk in chunks) <= 200


@pytest.mark.parametrize("opening", ["mod a {\n", "impl A for B {\n", "fn f() {\n"])
def test_deeply_nested_definitions_are_no_problem(opening):
    text = opening * 2000 + "}\n" * 2000
    chunks = code_chunks(text, "rust", max_tokens=200)
    assert uncovered(text, chunks) == ""
    assert max(len(chunk.anchor) for chunk in chunks) < 3000


def test_a_line_of_a_megabyte_is_cut_between_words():
    text = "const x = [" + "'some words in a string', " * 40_000 + "];"
    chunks = code_chunks(text, "javascript", max_tokens=200)
    assert len(text) > 1_000_000
    assert max(chunk.tokens for chunk in chunks) <= 200
    assert sum(chunk.tokens for chunk in chunks) > 200 * len(chunks) * 0.9


def test_a_broken_file_that_a_scanner_reads_at_every_error_is_given_up(monkeypatch):
    monkeypatch.setattr(grammars, "_MAX_CPU_S", float("inf"))
    assert grammars.parse(")" * 20_000, "lua") is None


def test_an_interface_of_ocaml_is_cut_by_its_own_grammar():
    chunks = code_chunks((CORPUS / "cache.mli").read_text("utf-8"), "ocaml", path="lib/cache.mli")
    assert [chunk.metadata["symbols"] for chunk in chunks] == [
        ["Full", "entry", "capacity", "is_old", "Bounded", "Bounded.size"]
    ]


def test_a_stage_of_a_dockerfile_is_a_chunk_with_its_instructions():
    chunks = code_chunks(sample("dockerfile"), "dockerfile")
    assert [chunk.anchor for chunk in chunks] == ["module", "stage build", "stage python:${PYTHON}-slim"]
    assert chunks[2].text.startswith("# What runs.\nFROM") and chunks[2].text.endswith('"8080"]')


def test_comments_and_attributes_stand_with_the_definitions_of_new_languages():
    starts = {
        "lua": ("Session.new", "--- Starts a session."),
        "elixir": ("Shop.Cart.add", '@doc "Adds an item'),
        "haskell": ("balance", "-- | Sums the entries up.\nbalance ::"),
        "ocaml": ("is_old", "(** Whether an entry is old. *)"),
        "powershell": ("Remove-OldBackup", "<#\n.SYNOPSIS"),
        "sql": ("paid", "-- What each customer paid."),
        "zig": ("Ring.push", "/// Adds a byte"),
        "terraform": ("resource.aws_vpc.main", "# What others are in."),
    }
    for language, (symbol, start) in starts.items():
        chunks = code_chunks(sample(language), language)
        text = next(chunk.text for chunk in chunks if chunk.metadata.get("symbol") == symbol)
        assert text.startswith(start), language

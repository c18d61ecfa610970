"""The language of a file, from its name and its head."""

import pytest

from knowledge_pipeline.file_languages import (
    LANGUAGES,
    PARSED_LANGUAGES,
    detect_language,
    is_code,
    list_possible_languages,
)


@pytest.mark.parametrize(
    ("path", "language"),
    [
        ("src/a.py", "python"),
        ("a.PY", "python"),
        ("lib/a.tsx", "tsx"),
        ("lib/a.mts", "typescript"),
        ("lib/a.jsx", "javascript"),
        ("x/A.cs", "c_sharp"),
        ("x/a.h", "c"),
        ("x/a.hpp", "cpp"),
        ("x/build.gradle.kts", "kotlin"),
        ("Dockerfile", "dockerfile"),
        ("docker/Dockerfile.dev", "dockerfile"),
        ("Makefile", "makefile"),
        ("Makefile.am", "makefile"),
        ("CMakeLists.txt", "cmake"),
        ("config.yaml.tmpl", "yaml"),
        ("a.tf", "terraform"),
        ("notes.txt", "text"),
        ("README", "text"),
        ("README.md", "markdown"),
        ("a.rst", "rst"),
        ("a.unknown", None),
        ("bin/tool", None),
        ("py", None),
        ("", None),
    ],
)
def test_a_name_tells_the_language(path, language):
    assert detect_language(path) == language
    assert language is None or language in LANGUAGES


@pytest.mark.parametrize(
    ("head", "language"),
    [
        ("#!/bin/sh\necho", "bash"),
        ("#!/usr/bin/env python3.11\n", "python"),
        ("#!/usr/bin/env -S uv run --script\n", "python"),
        ("#! /usr/bin/perl -w\n", "perl"),
        ("#!/usr/bin/env LANG=C node\n", "javascript"),
        ("#!/usr/bin/env\n", None),
        ("#!\n", None),
        ("plain text", None),
    ],
)
def test_a_first_line_tells_the_language_of_a_script_without_extension(head, language):
    assert detect_language("bin/tool", head) == language


@pytest.mark.parametrize(
    ("path", "head", "language"),
    [
        ("a.h", "#ifndef A\nstruct point { int x; };\nint add(int a, int b);\n", "c"),
        ("a.h", "/* a class of things: using this */\nint f(void);\n", "c"),
        ("a.h", "#pragma once\nnamespace geometry {\nclass Point {};\n}\n", "cpp"),
        ("a.h", "#include <string>\nstd::string name();\n", "cpp"),
        ("a.h", "#pragma once\nUENUM(BlueprintType)\nenum class Verb : uint8 { GET };\n", "cpp"),
        ("a.h", "USTRUCT()\nstruct FRow { GENERATED_BODY() };\n", "cpp"),
        ("a.h", "#import <Foundation/Foundation.h>\n@interface A\n@end\n", "objective_c"),
        ("a.m", "function y = f(x)\n  y = x;\nend\n", "matlab"),
        ("a.m", "@implementation A\n@end\n", "objective_c"),
        ("a_de.ts", "<?xml version='1.0'?>\n<TS></TS>", "xml"),
        ("a.v", "module adder(input a);\nendmodule\n", "verilog"),
        ("a.v", "module main\nfn main() {}\n", "v"),
        ("a.txt", "Models\n======\n\n.. _model-fields:\n", "rst"),
        ("a.txt", "Models\n======\n\n.. versionadded:: 3.2\n", "rst"),
        ("a.txt", "\n======\nModels\n======\n\nFields.\n", "rst"),
        ("a.txt", "======\nModels\n------\n\nFields.\n", "text"),
        ("a.txt", "Models\n======\n\nSee .. and std::string, or ..hidden::\n", "text"),
    ],
)
def test_content_tells_apart_what_shares_an_extension(path, head, language):
    assert detect_language(path, head) == language


def test_a_header_may_be_any_of_the_c_family():
    assert list_possible_languages("a.h") == {"c", "cpp", "objective_c"}
    assert list_possible_languages("a.go") == {"go"}
    assert list_possible_languages("a.unknown") == frozenset()


def test_prose_and_data_are_no_code():
    names = ["python", "toml", "dockerfile", "markdown", "rst", "text", "json", None]
    assert [is_code(name) for name in names] == [True, True, True, False, False, False, False, False]


def test_every_language_with_a_grammar_has_an_extension():
    extensions = [
        "py",
        "js",
        "ts",
        "tsx",
        "go",
        "java",
        "rs",
        "c",
        "cpp",
        "cs",
        "rb",
        "php",
        "kt",
        "swift",
        "scala",
        "sh",
        "lua",
        "ex",
        "hs",
        "ml",
        "ps1",
        "sql",
        "zig",
        "hcl",
        "tf",
        "dockerfile",
    ]
    assert {detect_language(f"a.{extension}") for extension in extensions} == PARSED_LANGUAGES

"""Which language a file is written in, from its name and its first lines.

One table for sources (what counts as code) and chunkers (how to cut it). A name
that is not in the table has no language: the file is then no code by default.
"""

from __future__ import annotations

import re

PARSED_LANGUAGES = frozenset(
    [
        "python",
        "javascript",
        "typescript",
        "tsx",
        "go",
        "java",
        "rust",
        "c",
        "cpp",
        "c_sharp",
        "ruby",
        "php",
        "kotlin",
        "swift",
        "scala",
        "bash",
    ]
)
"""Languages with AST chunks and a code graph; all others are cut by lines."""

PROSE_LANGUAGES = frozenset({"markdown", "rst", "asciidoc", "org", "text"})
DATA_LANGUAGES = frozenset({"json", "xml", "csv", "notebook"})

_EXTENSIONS = {
    "ada": "ada adb ads",
    "asciidoc": "adoc asciidoc",
    "assembly": "asm s",
    "astro": "astro",
    "awk": "awk",
    "bash": "sh bash zsh ksh bats ebuild",
    "batch": "bat cmd",
    "bazel": "bzl bazel star",
    "bicep": "bicep",
    "c": "c h",
    "c_sharp": "cs csx",
    "clojure": "clj cljs cljc edn",
    "cmake": "cmake",
    "cobol": "cob cbl cpy",
    "coffeescript": "coffee",
    "common_lisp": "lisp cl lsp asd",
    "cpp": "cc cpp cxx c++ hh hpp hxx h++ ipp inl tpp cppm ixx",
    "crystal": "cr",
    "css": "css",
    "csv": "csv tsv",
    "cuda": "cu cuh",
    "cue": "cue",
    "cython": "pyx pxd pxi",
    "d": "d di",
    "dart": "dart",
    "dhall": "dhall",
    "elisp": "el",
    "elixir": "ex exs",
    "elm": "elm",
    "erlang": "erl hrl",
    "fish": "fish",
    "fortran": "f f77 f90 f95 f03 f08 for",
    "fsharp": "fs fsx fsi",
    "gdscript": "gd",
    "gleam": "gleam",
    "glsl": "glsl vert frag geom comp",
    "go": "go",
    "graphql": "graphql graphqls gql",
    "groovy": "groovy gradle gvy jenkinsfile",
    "handlebars": "hbs handlebars mustache",
    "haskell": "hs lhs hsc",
    "haxe": "hx",
    "hcl": "hcl",
    "hlsl": "hlsl",
    "html": "html htm xhtml",
    "ini": "ini cfg conf properties editorconfig",
    "java": "java",
    "javascript": "js jsx mjs cjs es6",
    "jinja": "j2 jinja jinja2",
    "json": "json jsonc json5 ndjson jsonl geojson webmanifest",
    "jsonnet": "jsonnet libsonnet",
    "julia": "jl",
    "just": "just",
    "kotlin": "kt kts",
    "latex": "tex sty bib",
    "less": "less",
    "lua": "lua luau",
    "makefile": "mk mak make",
    "markdown": "md markdown mdx mdown mkd",
    "matlab": "matlab",
    "meson": "wrap",
    "mojo": "mojo",
    "nim": "nim nims nimble",
    "nix": "nix",
    "notebook": "ipynb",
    "objective_c": "m",
    "objective_cpp": "mm",
    "ocaml": "ml mli mll mly",
    "odin": "odin",
    "org": "org",
    "pascal": "pas pp dpr",
    "perl": "pl pm t",
    "php": "php phtml php5 php7",
    "powershell": "ps1 psm1 psd1",
    "prisma": "prisma",
    "prolog": "pro",
    "proto": "proto",
    "puppet": "epp",
    "purescript": "purs",
    "python": "py pyi pyw",
    "qml": "qml",
    "r": "r rmd",
    "racket": "rkt",
    "rego": "rego",
    "rescript": "res resi",
    "rst": "rst",
    "ruby": "rb rake gemspec ru podspec",
    "rust": "rs",
    "sass": "sass",
    "scala": "scala sc sbt",
    "scheme": "scm ss sld",
    "scss": "scss",
    "smithy": "smithy",
    "solidity": "sol",
    "sql": "sql ddl psql plsql",
    "starlark": "sky",
    "stylus": "styl",
    "svelte": "svelte",
    "swift": "swift",
    "systemverilog": "sv svh",
    "tcl": "tcl",
    "terraform": "tf tfvars",
    "text": "txt text",
    "thrift": "thrift",
    "toml": "toml",
    "tsx": "tsx",
    "typescript": "ts mts cts",
    "typst": "typ",
    "v": "v vsh",
    "vala": "vala vapi",
    "vhdl": "vhd vhdl",
    "vim": "vim",
    "visual_basic": "vb bas vbs",
    "vue": "vue",
    "wgsl": "wgsl",
    "xml": "xml xsd xsl xslt plist csproj vcxproj resx svg",
    "yaml": "yaml yml",
    "zig": "zig zon",
}
_BY_EXTENSION = {extension: name for name, line in _EXTENSIONS.items() for extension in line.split()}

_FILE_NAMES = {
    "bash": ".bashrc .bash_profile .bash_aliases .profile .zshrc .zprofile .zshenv pkgbuild gradlew",
    "cmake": "cmakelists.txt",
    "dockerfile": "dockerfile containerfile",
    "go_module": "go.mod go.work",
    "groovy": "jenkinsfile",
    "ini": ".gitconfig .npmrc .pylintrc .flake8 .coveragerc",
    "just": "justfile .justfile",
    "makefile": "makefile gnumakefile bsdmakefile",
    "meson": "meson.build meson_options.txt meson.options",
    "python": "sconstruct sconscript wscript tiltfile",
    "ruby": "gemfile rakefile guardfile vagrantfile podfile fastfile brewfile dangerfile capfile",
    "text": "readme license copying changelog notice authors contributors",
    "vim": ".vimrc",
}
_BY_FULL_NAME = {file_name: name for name, line in _FILE_NAMES.items() for file_name in line.split()}

_INTERPRETERS = {
    "bash": "sh bash zsh ksh dash ash bats",
    "awk": "awk gawk mawk",
    "clojure": "bb clojure",
    "elixir": "elixir",
    "fish": "fish",
    "go": "go",
    "groovy": "groovy",
    "haskell": "runhaskell runghc",
    "javascript": "node nodejs bun",
    "julia": "julia",
    "kotlin": "kotlin",
    "lua": "lua luajit",
    "makefile": "make",
    "ocaml": "ocaml",
    "perl": "perl",
    "php": "php",
    "powershell": "pwsh powershell",
    "python": "python pypy uv",
    "r": "rscript",
    "racket": "racket",
    "ruby": "ruby jruby",
    "scala": "scala amm",
    "swift": "swift",
    "tcl": "tclsh wish expect",
    "typescript": "deno ts-node tsx",
}
_BY_INTERPRETER = {program: name for name, line in _INTERPRETERS.items() for program in line.split()}

LANGUAGES = frozenset({*_EXTENSIONS, *_FILE_NAMES, *_INTERPRETERS, "dockerfile", "verilog"})
"""Every name that `language_of` may give."""

_SHEBANG = re.compile(
    r"\A\ufeff?#![ \t]*(?P<path>\S+)(?:[ \t]+(?:-\S+[ \t]+|\w+=\S*[ \t]+)*(?P<argument>[\w./+-]+))?"
)
_CPP = re.compile(
    r"^[ \t]*(?:class\s+\w+[^;()]{0,200}[{:]|"
    r"class\s+\w+\s*;|namespace\b|template\s*<|using\s+\w|public:|private:"
    r"|protected:|(?:inline\s+)?constexpr\b|#\s*include\s*<(?:string|vector|memory|map|iostream|utility|cstd\w+|"
    r"functional|algorithm|type_traits|unordered_map|optional|string_view|mutex|atomic)>)|\bstd::\w",
    re.MULTILINE,
)
_OBJECTIVE_C = re.compile(r"^[ \t]*(?:@interface|@implementation|@protocol|@class|#import)\b", re.MULTILINE)
_HEAD_CHARS = 32_768


def detect_language(path: str, head: str = "") -> str | None:
    """Name of the language of a file; None where neither name nor content tells.

    Args:
        path: POSIX path, or the file name alone; never opened.
        head: the file's first characters (all of it will do), read for a `#!` line and to
            tell apart what shares an extension (`.h` is C, C++ or Objective-C). May be empty.
    """
    file_name = path.rpartition("/")[2].lower()
    named = _detect_by_name(file_name)
    if named is None:
        return _detect_by_shebang(head)
    return _disambiguate(file_name, named, head[:_HEAD_CHARS]) if head else named


def list_possible_languages(path: str) -> frozenset[str]:
    """Every language that `language_of(path, head)` may name for some content; empty if unknown."""
    named = detect_language(path)
    if named is None:
        return frozenset()
    if path.lower().endswith(".h"):
        return frozenset({"c", "cpp", "objective_c"})
    return frozenset({named})


def is_code(language: str | None) -> bool:
    """Whether a language is programming or configuration, rather than prose or mere data."""
    return language is not None and language not in PROSE_LANGUAGES and language not in DATA_LANGUAGES


def _detect_by_name(file_name: str) -> str | None:
    if file_name in _BY_FULL_NAME:
        return _BY_FULL_NAME[file_name]
    if file_name.endswith(".blade.php"):
        return "php"
    if file_name.startswith(("dockerfile.", "containerfile.")) or file_name.endswith(".dockerfile"):
        return "dockerfile"
    stem, dot, extension = file_name.rpartition(".")
    if extension in {"in", "tmpl", "tpl", "template"} and "." in stem:
        extension = stem.rpartition(".")[2]
    if not dot:
        return None
    return _BY_EXTENSION.get(extension) or ("makefile" if stem == "makefile" else None)


def _detect_by_shebang(head: str) -> str | None:
    match = _SHEBANG.match(head)
    if match is None:
        return None
    program = match["path"].rpartition("/")[2]
    if program == "env":
        program = (match["argument"] or "").rpartition("/")[2]
    return _BY_INTERPRETER.get(re.sub(r"[\d.]+$", "", program.lower()))


def _disambiguate(file_name: str, candidate: str, head: str) -> str | None:
    """The language among those that share an extension; `head` is not empty."""
    if file_name.endswith(".h"):
        if _OBJECTIVE_C.search(head):
            return "objective_c"
        return "cpp" if _CPP.search(head) else "c"
    if file_name.endswith(".m"):
        objective = _OBJECTIVE_C.search(head) or "#include" in head
        return "objective_c" if objective else "matlab"
    if file_name.endswith(".ts") and head.lstrip("\ufeff \t\r\n").startswith(("<?xml", "<!DOCTYPE TS")):
        return "xml"  # translations of Qt
    if file_name.endswith(".v") and re.search(
        r"^\s*(?:module\s+\w+\s*[(#;]|endmodule\b|`timescale)", head, re.M
    ):
        return "verilog"
    return candidate

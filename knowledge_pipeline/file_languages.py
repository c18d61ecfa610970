"""Languages of files, and what files are for, by their paths and first lines.

One table of languages serves sources (what counts as code) and chunkers (how to cut it).
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Literal

GRAPH_LANGUAGES = frozenset(
    [
        *("python", "javascript", "typescript", "tsx", "go", "java", "rust", "c", "cpp", "c_sharp"),
        *("ruby", "php", "kotlin", "swift", "scala", "bash"),
    ]
)
"""Languages with AST chunks and a code graph."""

EMBEDDING_LANGUAGES = frozenset({"vue", "svelte", "astro", "notebook"})
"""Languages of files that hold code of another one: with a code graph, without AST chunks."""

PARSED_LANGUAGES = GRAPH_LANGUAGES | {
    *("lua", "elixir", "haskell", "ocaml", "powershell", "sql", "zig", "hcl", "terraform", "dockerfile")
}
"""Languages with AST chunks; all others are cut by lines."""

PROSE_LANGUAGES = frozenset({"markdown", "rst", "asciidoc", "org", "text"})
DATA_LANGUAGES = frozenset({"json", "xml", "csv", "notebook"})
TEMPLATE_LANGUAGES = frozenset({"erb", "haml", "jsp", "liquid", "pug", "razor", "slim", "twig", "xaml"})

VENDORED_FOLDERS = frozenset({"vendor", "third_party", "dist"})
"""Folders of others' code and of what was built, but where `is_package` holds."""
_PACKAGE_PATH = re.compile(
    r"(?:^|/)(?:src/[^/]+/(?:java|kotlin|scala|groovy)|(?:com|org|net|io|edu|gov)/[^/]+)/"
)


def _parse_table(entries: str, same_names: str = "") -> dict[str, str]:
    """Languages with what identifies them ("name: forms; ..."), and those whose one form is their name."""
    pairs = (entry.partition(":") for entry in entries.split(";"))
    return {name.strip(): forms for name, _, forms in pairs} | {name: name for name in same_names.split()}


_EXTENSIONS = _parse_table(
    """
    ada: ada adb ads; asciidoc: adoc asciidoc; assembly: asm s; bash: sh bash zsh ksh bats ebuild;
    batch: bat cmd; bazel: bzl bazel star; c: c h; c_sharp: cs csx; clojure: clj cljs cljc edn;
    cobol: cob cbl cpy; coffeescript: coffee; common_lisp: lisp cl lsp asd;
    cpp: cc cpp cxx c++ hh hpp hxx h++ ipp inl tpp cppm ixx; crystal: cr; csv: csv tsv; cuda: cu cuh;
    cython: pyx pxd pxi; d: d di; elisp: el; elixir: ex exs; erb: erb rhtml; erlang: erl hrl;
    fortran: f f77 f90 f95 f03 f08 for; fsharp: fs fsx fsi; gdscript: gd;
    glsl: glsl vert frag geom comp; graphql: graphql graphqls gql;
    groovy: groovy gradle gvy jenkinsfile; handlebars: hbs handlebars mustache; haskell: hs lhs hsc;
    haxe: hx; html: html htm xhtml; ini: ini cfg conf properties editorconfig;
    javascript: js jsx mjs cjs es6; jinja: j2 jinja jinja2;
    json: json jsonc json5 ndjson jsonl geojson webmanifest; jsonnet: jsonnet libsonnet; jsp: jsp jspf;
    julia: jl;
    kotlin: kt kts; latex: tex sty bib; lua: lua luau; makefile: mk mak make;
    markdown: md markdown mdx mdown mkd; meson: wrap; nim: nim nims nimble; notebook: ipynb;
    objective_c: m; objective_cpp: mm; ocaml: ml mli mll mly; pascal: pas pp dpr; perl: pl pm t;
    php: php phtml php5 php7; powershell: ps1 psm1 psd1; prolog: pro; pug: pug jade; puppet: epp;
    purescript: purs; python: py pyi pyw; r: r rmd; racket: rkt; razor: razor cshtml vbhtml;
    rescript: res resi; ruby: rb rake gemspec ru podspec;
    rust: rs; scala: scala sc sbt; scheme: scm ss sld; solidity: sol; sql: sql ddl psql plsql;
    starlark: sky; stylus: styl; systemverilog: sv svh; terraform: tf tfvars; text: txt text;
    typescript: ts mts cts; typst: typ; v: v vsh; vala: vala vapi; vhdl: vhd vhdl;
    visual_basic: vb bas vbs; xaml: xaml axaml; xml: xml xsd xsl xslt plist csproj vcxproj resx svg;
    yaml: yaml yml;
    zig: zig zon
    """,
    """
    astro awk bicep cmake css cue dart dhall elm fish gleam go haml hcl hlsl java just less liquid matlab
    mojo nix odin org prisma proto qml rego rst sass scss slim smithy svelte swift tcl thrift toml tsx twig
    vim vue wgsl
    """,
)
_BY_EXTENSION = {extension: name for name, line in _EXTENSIONS.items() for extension in line.split()}

_FILE_NAMES = _parse_table(
    """
    bash: .bashrc .bash_profile .bash_aliases .profile .zshrc .zprofile .zshenv pkgbuild gradlew;
    cmake: cmakelists.txt; dockerfile: dockerfile containerfile; go_module: go.mod go.work;
    groovy: jenkinsfile; ini: .gitconfig .npmrc .pylintrc .flake8 .coveragerc; just: justfile .justfile;
    makefile: makefile gnumakefile bsdmakefile; meson: meson.build meson_options.txt meson.options;
    procfile: procfile;
    python: sconstruct sconscript wscript tiltfile;
    ruby: gemfile rakefile guardfile vagrantfile podfile fastfile brewfile dangerfile capfile;
    text: readme license copying changelog notice authors contributors; vim: .vimrc
    """
)
_BY_FULL_NAME = {file_name: name for name, line in _FILE_NAMES.items() for file_name in line.split()}
_BAZEL_NAMES = frozenset({"BUILD", "WORKSPACE"})  # in capitals alone: `build` is a script
_BY_BEGINNING = {"<?php": "php", "<?xml": "xml"}  # of files whose names are of no language

_INTERPRETERS = _parse_table(
    """
    bash: sh bash zsh ksh dash ash bats; awk: awk gawk mawk; clojure: bb clojure;
    haskell: runhaskell runghc; javascript: node nodejs bun; lua: lua luajit; makefile: make;
    powershell: pwsh powershell; python: python pypy uv; r: rscript; ruby: ruby jruby; scala: scala amm;
    tcl: tclsh wish expect; typescript: deno ts-node tsx
    """,
    """
    elixir fish go groovy julia kotlin ocaml perl php racket swift
    """,
)
_BY_INTERPRETER = {program: name for name, line in _INTERPRETERS.items() for program in line.split()}

LANGUAGES = frozenset({*_EXTENSIONS, *_FILE_NAMES, *_INTERPRETERS, "dockerfile", "verilog"})
"""Every name that `detect_language` may give."""

_SHEBANG = re.compile(
    r"\A\ufeff?#![ \t]*(?P<path>\S+)(?:[ \t]+(?:-\S+[ \t]+|\w+=\S*[ \t]+)*(?P<argument>[\w./+-]+))?"
)
_CPP = re.compile(
    r"^[ \t]*(?:class\s+\w+[^;()]{0,200}[{:]|"
    r"class\s+\w+\s*;|enum\s+class\b|U(?:CLASS|STRUCT|ENUM|INTERFACE)\(|Q_(?:OBJECT|GADGET|NAMESPACE)\b|"
    r"namespace\b|template\s*<|using\s+\w|public:|private:"
    r"|protected:|(?:inline\s+)?constexpr\b|#\s*include\s*<(?:string|vector|memory|map|iostream|utility|cstd\w+|"
    r"functional|algorithm|type_traits|unordered_map|optional|string_view|mutex|atomic)>)|\bstd::\w",
    re.MULTILINE,
)
_OBJECTIVE_C = re.compile(r"^[ \t]*(?:@interface|@implementation|@protocol|@class|#import)\b", re.MULTILINE)
_RST = re.compile(  # a target, a directive, or a title at the start with a line above and below
    r"^\.\. (?:_[^:\n]{1,200}:|[\w-]{1,50}::)|\A\s{0,100}+([=*#~-])\1{2,200}\n[^\n]{1,200}\n\1{3,200}[ \t]*$",
    re.MULTILINE,
)
_VERILOG = re.compile(r"^[ \t]*(?:module\s+\w+\s*[(#;]|endmodule\b|`timescale)", re.MULTILINE)
_HEAD_CHARS = 32_768


def detect_language(path: str, head: str = "") -> str | None:
    """Name of the language of a file, which has none and is not code where neither name nor content shows it.

    Args:
        path: POSIX path, or the file name alone; never opened.
        head: the file's first characters (all of it will do), read for a `#!` line and to
            tell apart what shares an extension (`.h` is C, C++ or Objective-C, `.txt` may be
            reStructuredText). May be empty.
    """
    name = path.rpartition("/")[2]
    file_name = name.lower()
    candidate = "bazel" if name in _BAZEL_NAMES else _detect_by_name(file_name)
    if candidate is None:
        match = _SHEBANG.match(head)
        if match is None:
            return _BY_BEGINNING.get(head[:1024].lstrip("\ufeff \t\r\n")[:5])
        program = match["path"].rpartition("/")[2]
        if program == "env":
            program = (match["argument"] or "").rpartition("/")[2]
        return _BY_INTERPRETER.get(re.sub(r"[\d.]+$", "", program.lower()))
    return _disambiguate(file_name, candidate, head[:_HEAD_CHARS]) if head else candidate


def list_possible_languages(path: str) -> frozenset[str]:
    """Every language that `detect_language(path, head)` may name for some content; empty if unknown."""
    language = detect_language(path)
    if language is None:
        return frozenset()
    if path.lower().endswith(".h"):
        return frozenset({"c", "cpp", "objective_c"})
    return frozenset({language})


_TSCONFIG = re.compile(
    r"(?:^|/)(?:[jt]sconfig[^/]*|(?:[\w.]+-)?(?:tsconfig|ts-config|typescript-config)(?:-[\w.]+)?/[^/]+)\.json$"
)


def is_tsconfig(path: str) -> bool:
    """Whether a file holds settings of TypeScript: tsconfig.json, or one of a package of them to extend."""
    return _TSCONFIG.search(path) is not None and not path.endswith("package.json")


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
    if not dot:
        return None
    if extension in {"in", "tmpl", "tpl", "template"} and "." in stem:
        extension = stem.rpartition(".")[2]
    return _BY_EXTENSION.get(extension) or ("makefile" if stem == "makefile" else None)


def _disambiguate(file_name: str, candidate: str, head: str) -> str | None:
    """The language among those that share an extension."""
    if file_name.endswith(".h"):
        return "objective_c" if _OBJECTIVE_C.search(head) else "cpp" if _CPP.search(head) else "c"
    if file_name.endswith(".m"):
        return "objective_c" if _OBJECTIVE_C.search(head) or "#include" in head else "matlab"
    if file_name.endswith(".ts") and head.lstrip("\ufeff \t\r\n").startswith(("<?xml", "<!DOCTYPE TS")):
        return "xml"  # translations of Qt
    if file_name.endswith(".v") and _VERILOG.search(head):
        return "verilog"
    if candidate == "text" and file_name.endswith(".txt") and _RST.search(head):
        return "rst"
    return candidate


FileRole = Literal["source", "test", "generated"]
SideRole = Literal["test", "generated", "template", "changelog", "about", "configuration"]
"""What a file is for that is neither source code nor documentation of how to use it."""

_TEST_FOLDERS = frozenset(
    (
        *("test", "tests", "testing", "testdata", "spec", "specs", "fixture", "fixtures", "mock", "mocks"),
        *("example", "examples", "sample", "samples", "benchmark", "benchmarks", "e2e"),
    )
)
_TEST_STEMS = frozenset(("test", "tests", "spec", "conftest"))
ROLE_WORDS: dict[SideRole, tuple[str, ...]] = {
    "test": (*sorted(_TEST_FOLDERS), "demo"),
    "generated": ("generated", "vendored", "vendor", "lock"),
    "template": ("template", "stylesheet", "css", "html", "translation"),
    "changelog": ("changelog", "release", "changed", "changes", "new", "introduced", "removed"),
    "about": ("license", "licence", "contributing", "contribute", "security", "author", "governance"),
    "configuration": ("ci", "workflow", "github", "yaml", "toml", "makefile", "docker", "configuration"),
}
"""Words of a question that asks for files of such a role."""

_GENERATED_FOLDERS = frozenset(
    ("vendor", "vendored", "node_modules", "third_party", "dist", "generated", "gen", "site-packages")
)
_GENERATED_NAME = re.compile(
    r"_pb2(_grpc)?\.pyi?$|\.pb\.|\.min\.|\.generated\.|\.lock$|-lock\.|^(changelog|changes|history|news)\b",
    re.I,
)
_SIDE_ROLES: dict[SideRole, re.Pattern[str]] = {  # the first that fits the path in lower case
    "changelog": re.compile(r"(^|/)(changelog|changes|history|release.?notes|news)[^/]*$"),
    "about": re.compile(
        r"(^|/)(licen[cs]e|copying|contributing|code_of_conduct|security|authors|governance|maintainers)[^/]*$"
        r"|(^|/)(issue_template|pull_request_template)"
    ),
    "configuration": re.compile(
        r"(^|/)\.(github|circleci|gitlab)[/-]|\.(ya?ml|toml|cfg|ini)$|(^|/)(makefile|dockerfile)"
    ),
    "template": re.compile(r"\.(css|scss|less|svg|html?|j2|jinja2?|po|map)$"),
}
_NAME_WORD = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z0-9]+")


def is_package(folder: str) -> bool:
    """Whether a folder lies in a package of Java, Kotlin, Scala or Groovy, which may be called anything."""
    return _PACKAGE_PATH.search(folder) is not None


@lru_cache(maxsize=16_384)
def classify_file(path: str) -> FileRole:
    """By the words of its folders and of its name: "src/api_tests/FooTest.java" is a test."""
    *folders, name = path.split("/")
    generated = _GENERATED_FOLDERS.intersection(map(str.lower, folders))
    if package := _PACKAGE_PATH.search(path):
        generated -= VENDORED_FOLDERS.difference(path[: package.start()].lower().split("/"))
    if generated or _GENERATED_NAME.search(name):
        return "generated"
    folder_words = set(map(str.lower, _NAME_WORD.findall("/".join(folders))))
    stem_words = list(map(str.lower, _NAME_WORD.findall(name.rpartition(".")[0] or name)))
    is_test = _TEST_FOLDERS & folder_words or _TEST_STEMS.intersection(stem_words[:1] + stem_words[-1:])
    return "test" if is_test else "source"


@lru_cache(maxsize=16_384)
def find_side_role(path: str) -> SideRole | None:
    """What a file is for that is neither source code nor documentation; None where it is one of these."""
    role = classify_file(path)
    if role == "test":
        return "test"
    lower = path.lower()
    for side_role, form in _SIDE_ROLES.items():
        if form.search(lower):
            return side_role
    return "generated" if role == "generated" else None


_OPENAPI_YAML = re.compile(
    rb"""^(?:\xef\xbb\xbf)?["']?(?:openapi|swagger)["']?[ \t]*:[ \t]*["']?[23]\b""", re.MULTILINE
)
_OPENAPI_JSON = re.compile(rb'"(?:openapi|swagger)"\s*:\s*"[23]\b')


def is_openapi(payload: bytes) -> bool:
    """Whether a YAML or JSON file says that it is OpenAPI 3 or Swagger 2, wherever in it that key stands."""
    if _OPENAPI_YAML.search(payload):
        return True
    if not _OPENAPI_JSON.search(payload):
        return False
    try:
        root = json.loads(payload)
    except (ValueError, RecursionError):  # cut off, or YAML that looks alike: its chunker says more
        return True
    return isinstance(root, dict) and ("openapi" in root or "swagger" in root)

"""Where the body of a definition begins, so that what precedes it is its head."""

from __future__ import annotations

import pytest

from knowledge_pipeline.syntax.grammars import parse, parse_root
from knowledge_pipeline.syntax.outline import CALLABLE_KINDS, Outline, open_outline
from knowledge_pipeline_tests.chunking.code_samples import FILES, WITHOUT_FUNCTIONS, sample

HEADS = [
    ("javascript", "const double = (x) => x * 2;\n", "double = (x) =>"),
    ("javascript", "const add = (a, b) => {\n  return a + b;\n};\n", "add = (a, b) =>"),
    ("javascript", "const Shop = class extends Base {\n  open() {}\n};\n", "Shop = class extends Base"),
    ("go", "package a\n\ntype Store struct {\n\trows int\n}\n", "Store struct"),
    ("python", "class Store(Base):\n    rows = 1\n", "class Store(Base):"),
]


@pytest.mark.parametrize(("language", "text", "head"), HEADS, ids=[each[2] for each in HEADS])
def test_a_head_ends_where_the_body_begins(language: str, text: str, head: str) -> None:
    tree = parse(text, language)
    assert tree is not None
    first = Outline(tree).definitions[0]
    assert text[first.start_char : first.body_start_char].strip() == head


def symbols(text: str, language: str = "cpp") -> list[str]:
    """The kinds and names of what a text defines."""
    outline = open_outline(text, language)
    assert outline is not None
    assert outline.tree.text == text
    return [f"{one.kind} {one.symbol}" for one in outline.definitions]


CLASSES = [
    ("class API_EXPORT It : public Base {\n  void f() {}\n};\n", ["class It", "method It.f"]),
    ("struct PACKED ALIGNED(16) Point { int x; };\n", ["struct Point"]),
    ("enum class ARROW_EXPORT Color : int { RED };\n", ["enum Color"]),
    (
        "namespace std VISIBLE(default) {\n__BEGIN_DECLS\nclass a { int f() FOO { } };\n__END_DECLS\n}\n",
        ["module std", "class std.a", "method std.a.f"],
    ),
    (
        "class A : B {\n  Q_OBJECT\n  Q_PROPERTY(int a READ a)\n signals:\n  void s();\n"
        " public slots:\n  void t() {}\n};\n",
        ["class A", "method A.t"],
    ),
    (
        "UCLASS(Blueprint)\nclass G_API U : O {\n  GENERATED_BODY()\n  UFUNCTION(X)\n  void f() {}\n};\n",
        ["class U", "method U.f"],
    ),
    (
        '#ifdef __cplusplus\nextern "C" {\n#endif\nint f() { return 1; }\n#ifdef __cplusplus\n}\n#endif\n'
        "int g() { return 1; }\n",
        ["function f", "function g"],
    ),
    (
        "A::A()\n    :\n#ifndef NDEBUG\n      max_(1),\n#endif\n      now_(2) {}\nvoid g() {}\n",
        ["method A.A", "function g"],
    ),
    ("TYPED_TEST(Store, Opens) { f(); }\n", ["method Store.Opens"]),
    # no macros: a class, a variable, a statement, and what a macro holds
    ("class FINAL final : public Base {};\n", ["class FINAL"]),
    ("struct NODE first = {1};\nint f() { if (x) RETURN(y); }\n", ["function f"]),
    ("#define DECLARE(x) \\\n  class X_API x {}\nvoid f() {}\n", ["macro DECLARE", "function f"]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), CLASSES, ids=[each[0][:30] for each in CLASSES])
def test_macros_of_c_hide_no_definition(text: str, expected: list[str]) -> None:
    assert symbols(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "A::A()\n    : max_(1)\n#ifdef X\n    , now_ {2}\n#endif\n{\n  f();\n}\n",
        "void f() {\n  if (a) b();\n#ifdef X\n  else if (c) { d(); }\n#else\n  else { e(); }\n#endif\n}\n",
        "void f() {\n  log(a\n#ifdef X\n      , b);\n#else\n      , c(b));\n#endif\n}\n",
        "void f() {\n  add(a(1),\n#ifdef X\n      b,\n#endif\n      c);\n}\n",
        "X_API void *(*f)(int a) X_ATTR X_ATTR_PRINTF(1, 2);\n",
        "X_CONSTEXPR20 a_t<UC> f() { return 1; }\n",
    ],
)
def test_attributes_and_conditions_within_statements_of_c_are_no_errors(text: str) -> None:
    root = parse_root(text.encode(), "cpp")
    assert root is not None
    assert not root.has_error


def test_what_blanking_makes_no_better_is_parsed_as_it_is_written() -> None:
    assert symbols("struct FOO_API x{1};\nint f() { return g(); }\n") == ["function f"]


TYPES_OF_KOTLIN = [
    (
        "object A { const val X = 1 }\nobject B { const val X = 1 }\nclass C { fun f() {} }\n",
        ["object A", "constant A.X", "object B", "constant B.X", "class C", "method C.f"],
    ),
    (
        "class C {\n  companion object { const val X = 1 }\n  fun f() {}\n}\nclass D { fun g() = 1 }\n",
        ["class C", "object C.Companion", "constant C.Companion.X", "method C.f", "class D", "method D.g"],
    ),
    (
        "class A { companion object { fun of() = A() } }\nenum class E { A }\nfun f() { g(A::class) { } }\n",
        ["class A", "object A.Companion", "method A.Companion.of", "enum E", "function f"],
    ),
]


@pytest.mark.parametrize(("text", "expected"), TYPES_OF_KOTLIN)
def test_types_of_kotlin_that_stand_on_one_line_lose_nothing(text: str, expected: list[str]) -> None:
    assert symbols(text, "kotlin") == expected


@pytest.mark.parametrize("language", sorted(FILES))
@pytest.mark.parametrize("stray", [")))\n", "]\n"])
def test_a_stray_line_between_two_definitions_costs_itself_alone(language: str, stray: str) -> None:
    text = sample(language)
    outline = open_outline(text, language)
    assert outline is not None
    last = [one for one in outline.definitions if one.parent is None][-1]
    at = text.rfind("\n", 0, last.start_char) + 1
    assert set(symbols(text[:at] + stray + text[at:], language)) == set(symbols(text, language))


@pytest.mark.parametrize("language", sorted(set(FILES) - WITHOUT_FUNCTIONS - {"python"}))
def test_a_stray_line_in_a_function_costs_that_function_at_most(language: str) -> None:
    text = sample(language)
    outline = open_outline(text, language)
    assert outline is not None
    functions = [one for one in outline.definitions if one.kind in CALLABLE_KINDS and one.body_start_char]
    function = next(one for one in functions if "\n" in text[one.body_start_char : one.end_char])
    at = text.find("\n", function.body_start_char) + 1
    lost = set(symbols(text, language)) - set(symbols(f"{text[:at]})))\n{text[at:]}", language))
    assert all(name.split(" ")[1].startswith(function.symbol) for name in lost)

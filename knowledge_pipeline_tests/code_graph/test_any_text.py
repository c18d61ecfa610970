"""Any text of a language is read and resolved, in steps in proportion to its length."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge_pipeline.code_graph import resolve
from knowledge_pipeline.code_graph.languages.base import split_words
from knowledge_pipeline.file_languages import detect_language
from knowledge_pipeline_tests.code_graph import (
    test_bash,
    test_c,
    test_c_sharp,
    test_go,
    test_java,
    test_kotlin,
    test_php,
    test_ruby,
    test_rust,
    test_scala,
    test_swift,
)
from knowledge_pipeline_tests.code_graph.files import Files
from knowledge_pipeline_tests.code_graph.proportion import assert_in_proportion
from knowledge_pipeline_tests.thoroughness import examples

PIECES = {
    "bash": "source . a.sh f() { } x=1 $x ${y} $( ) | && ; if then fi local export \" ' << EOF é \x00",
    "c": """
        int struct union enum typedef class namespace n :: { } ( ) < > * & , ; : public = x y . -> [ ] new
        #include "a.h" #define static extern template using auto for if return 'c' é \x00 ~ operator+ T
        """,
    "c_sharp": """
        namespace A.B ; { } using static global = class record struct interface enum partial X : Y < T > where
        ( ) [ ] => ?. ?? ! new this base is as switch case var foreach in await async return $"a{x}" " ' // /*
        */ # \x00 é delegate event get set operator + out params
        """,
    "go": """
        package p import "a/b" func ( ) { } type struct interface * [] map [ ] . := = , ; T x y range for if
        switch case chan <- var const iota & go defer return ... 'c' ` // /* */ "x \x00 é any select
        """,
    "java": """
        class A { } interface B extends < T > ( ) , ; . :: -> new this super = int String var for : @ X
        import package a.b * static record enum " ' /* */ // ? & | [ ] instanceof switch case default
        try catch return \x00 é 🂡 throws yield
        """,
    "kotlin": """
        package import a.b.* as class object companion interface fun val var by lazy { } ( ) < > : ? ?. ?: !!
        :: -> = , it this super @ X y when is in if else for return "s $x ${ /* */ // ` \x00 é data enum
        """,
    "php": r"""
        <?php namespace App\Model ; use { } as ( ) class extends implements function const $x $this -> :: = [
        new static self parent return foreach catch try ?-> , ? : fn => enum case trait 'c' é \ ... & \x00
        """,
    "ruby": """
        class module def end self. x y Z :: . < ( ) { } |a| = @a @@b new include attr_reader :s super do
        return if unless "t" require_relative 'c' é ; && [ ] , *a &b nil \x00
        """,
    "rust": """
        fn pub mod use self super crate :: { } ( ) < > * as , ; impl for struct enum trait T x y . ! = let if
        match => & mut dyn Box Some macro_rules! # [ ] -> 'a " | where : x! é \x00 ? Self in
        """,
    "scala": """
        package import a.b.{C, D => E, _} class object trait case enum extension given implicit def val var
        type = => <- ( ) [ ] { } : <: , . _ this super new match if else for yield with extends return s"$x"
        "" ' /* */ // ` \x00 é @ X y
        """,
    "swift": """
        import A.B class struct enum extension protocol func var let init { } ( ) [ ] < > : ? ?? ! . .x -> = ,
        self super Self $0 if case guard for in switch default: return as? is where some any & @a #if #endif
        "s \\(x)" /* */ // ` \x00 é static private subscript typealias catch do try await
        """,
}
PROJECTS: dict[str, tuple[str, Callable[[str], dict[str, str]]]] = {
    "bash": (PIECES["bash"], lambda text: {"a.sh": text, "lib/log.sh": test_bash.SCRIPTS["lib/log.sh"]}),
    "c": (PIECES["c"], lambda text: {"src/a.c": text, test_c.HEADER: test_c.LIST[test_c.HEADER]}),
    "cpp": (PIECES["c"], lambda text: {"src/a.cpp": text, test_c.HEADER: test_c.LIST[test_c.HEADER]}),
    "c_sharp": (
        PIECES["c_sharp"],
        lambda text: {"A.cs": text, test_c_sharp.STORE: test_c_sharp.SHOP[test_c_sharp.STORE]},
    ),
    "go": (
        PIECES["go"],
        lambda text: {"store/a.go": text, "go.mod": text, test_go.STORE: test_go.APP[test_go.STORE]},
    ),
    "java": (PIECES["java"], lambda text: {"A.java": text, "B.java": test_java.SHOP[test_java.STORE]}),
    "kotlin": (
        PIECES["kotlin"],
        lambda text: {"A.kt": text, test_kotlin.STORE: test_kotlin.SHOP[test_kotlin.STORE]},
    ),
    "php": (
        PIECES["php"],
        lambda text: {"a.php": "<?php " + text, test_php.ITEM: test_php.SHOP[test_php.ITEM]},
    ),
    "ruby": (PIECES["ruby"], lambda text: {"lib/a.rb": text, test_ruby.ITEM: test_ruby.SHOP[test_ruby.ITEM]}),
    "rust": (
        PIECES["rust"],
        lambda text: {
            "shop/src/a.rs": text,
            "shop/Cargo.toml": text,
            test_rust.MODEL: test_rust.SHOP[test_rust.MODEL],
        },
    ),
    "scala": (
        PIECES["scala"],
        lambda text: {"A.scala": text, test_scala.STORE: test_scala.SHOP[test_scala.STORE]},
    ),
    "swift": (
        PIECES["swift"],
        lambda text: {"Sources/Shop/A.swift": text, test_swift.STORE: test_swift.SHOP[test_swift.STORE]},
    ),
}
"""Pieces of a language, and a project whose first file has a text of them, beside another file."""


@pytest.mark.parametrize("language", PROJECTS)
def test_no_text_makes_reading_or_resolving_fail(language: str) -> None:
    words, project = PROJECTS[language]
    pieces = st.sampled_from([*sorted(split_words(words)), "\n"])

    @settings(max_examples=examples(60), deadline=None)
    @given(st.lists(pieces, max_size=60).map(" ".join) | st.text(max_size=80))
    def check(text: str) -> None:
        texts = project(text)
        files, path = Files(texts), next(iter(texts))
        assert resolve(path, files) == resolve(path, files)

    check()


def repeat(piece: str, times: int = 150) -> str:
    """So many pieces, each with its number in place of `#`."""
    return "".join(piece.replace("#", str(number)) for number in range(times))


_STRUCT = "struct s# { int *a[3]; };\nint f#(struct s# *p) { int x = p->a[1]; g(&x); }\n"
_ARROWS = "int g() { return x" + "->a()" * 1_000 + "; }\n"
_TEXTS = [
    ("a.sh", "", repeat('f#() { local a="$b"; g# "$a" | h; }\nX#=1\n', 200), ""),
    *((path, "", text, "") for path in ("a.c", "a.cpp") for text in (repeat(_STRUCT, 100), _ARROWS)),
    ("A.cs", "class A { ", repeat("T F#(T a) { var b = a?.B(x => x.C())?.D(); return b.E[#]; }\n"), " }"),
    ("A.cs", "class A { ", "int f = x" + "?.A()" * 300 + ";", " }"),
    (
        "a.go",
        "package a\n",
        repeat("func f#(a T) (R, error) {\n\tb, err := a.B(&T{k: #}).C()\n\tvar c = func() { b.D() }\n}\n"),
        "",
    ),
    ("a.go", "package a\n", "func g() { x" + ".a()" * 2_000 + " }\n", ""),
    (
        "A.java",
        "",
        f"class A {{ {repeat('void m#(Item a#) { a#.b().c(x#).d = new Foo<Bar>(a#); }' + chr(10))} }}\n",
        "",
    ),
    ("A.java", "", "class A { int f = x" + ".a()" * 2_000 + "; }\n", ""),
    ("A.java", "class A {\n    private int a", repeat(", b#", 300), ";\n}\n"),
    ("a.sh", "", repeat("x#=1 ", 300), "\n"),
    ("A.kt", "", repeat("fun f#(a: T) {\n    val b = a.b { it.c() }?.d()\n    b.e()\n}\n"), ""),
    ("A.kt", "", "fun g() = x" + ".map { it.a() }" * 300 + "\n", ""),
    ("a.php", "", "<?php " + repeat("function f#(A $a): B { $b = $a->c(new D(#))->e; return $b; }\n"), ""),
    ("a.php", "", "<?php $x" + "->a()" * 1_000 + ";\n", ""),
    ("a.rb", "", repeat("class A#\n  def f(a)\n    b = C.new(a)\n    @d = b.e\n  end\nend\n"), ""),
    ("a.rb", "", "x" + ".a()" * 1_000 + "\n", ""),
    (
        "src/a.rs",
        "",
        repeat(
            "impl T# { fn f#(&self, a: &T) -> Result<T, E> { let b = a.c(|d| d.e())?; m!(b.g()); } }\n", 100
        ),
        "",
    ),
    ("src/a.rs", "", "fn g() { x" + ".a()?" * 1_000 + "; a" + "::b" * 1_000 + "; }\n", ""),
    (
        "A.scala",
        "class A {\n",
        repeat("  def f#(a: T) = {\n    val b = a.b(_.c()).d(#)\n    b.e()\n  }\n"),
        "}\n",
    ),
    ("A.scala", "class A {\n", "  def g = x" + ".map(_.a())" * 200 + "\n", "}\n"),
    ("A.swift", "", repeat("func f#(a: T) {\n    let b = a.b { $0.c() }?.d()\n    b.e(.x)\n}\n"), ""),
    ("A.swift", "", "let g = x" + ".map { $0.a() }" * 150 + "\n", ""),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "before", "text", "after"), _TEXTS, ids=[f"{each[0]} {at}" for at, each in enumerate(_TEXTS)]
)
def test_reading_takes_steps_in_proportion_to_the_text(path: str, before: str, text: str, after: str) -> None:
    language = detect_language(path, text)
    assert language
    assert_in_proportion(path, language, text, before=before, after=after)

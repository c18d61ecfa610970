"""What others can name is told apart from what they cannot, wherever a language writes it."""

from __future__ import annotations

import pytest

from knowledge_pipeline.code_graph import extract
from knowledge_pipeline_tests.code_graph.files import targets

HIDDEN = [
    (
        "java",
        "class A { private int x; private void f() {} public int y; void g() {} private class B { int z; } }",
        {"A.x", "A.f", "A.B", "A.B.z"},
    ),
    (
        "kotlin",
        "private fun f() {}\nclass A(private val x: Int, val z: Int) {\n private val y = 1\n fun g() {}\n}",
        {"f", "A.x", "A.y"},
    ),
    ("scala", "class A { private val x = 1; private[this] def f = 1; protected def g = 2 }", {"A.x", "A.f"}),
    ("c_sharp", "class A { private int x; private void F() {} public int Y { get; set; } }", {"A.x", "A.F"}),
    (
        "php",
        "<?php class A { private $x; private function f() {} public function g() {} private const C = 1;"
        " function __construct(private int $p, public int $q) {} }",
        {"A.x", "A.f", "A.C", "A.p"},
    ),
    (
        "swift",
        "class A { private func f() {}\n private(set) var x = 1\n fileprivate let y = 2\n func g() {} }\n"
        "private func h() {}",
        {"A.f", "A.y", "h"},
    ),
    (
        "rust",
        "fn a() {} pub fn b() {} pub struct S { x: i32, pub y: i32 } impl S { fn c() {} pub(crate) fn d() {}"
        " pub fn e() {} } pub trait T { fn f(); } impl T for S { fn f() {} } pub enum E { A }",
        {"a", "S.x", "S.c", "S.d"},
    ),
    (
        "ruby",
        "class A\n  def a; end\n  private\n  def b; end\n  public\n  def c; end\n  private def d; end\n"
        "  def e; end\n  private :e\nend\n",
        {"A.b", "A.d", "A.e"},
    ),
    (
        "typescript",
        "export class A { private x = 1; #y = 2; f() {} }\nclass B {}\nclass C { z = 1 }\nfunction g() {}\n"
        "function k() {}\nexport { B };\nexport default g;\nconst c = 1; export const d = 2;",
        {"A.x", "A.#y", "C", "C.z", "k", "c"},
    ),
    ("javascript", "function a() {}\nclass B {}\nmodule.exports = { a }", set[str]()),
    (
        "go",
        "package a\nfunc F() {}\nfunc g() {}\ntype T struct { X int; y int }\nfunc (t T) M() {}",
        {"g", "T.y"},
    ),
    (
        "python",
        "class _A:\n  def f(self): ...\nclass B:\n  def _g(self): ...\n  def __init__(self): ...\n_x = 1\n",
        {"_A", "_A.f", "B._g", "_x"},
    ),
    ("c", "static int x; static int f(void) { return 1; } int g(void) { return 1; }", {"x", "f"}),
    ("bash", "_f() { :; }\ng() { :; }\n", set[str]()),
]


@pytest.mark.parametrize(("language", "text", "hidden"), HIDDEN, ids=[each[0] for each in HIDDEN])
def test_what_is_private_is_not_exported(language: str, text: str, hidden: set[str]) -> None:
    definitions = extract("a", text, language).definitions
    assert {each.name for each in definitions if not each.exported} == hidden
    assert any(each.exported for each in definitions)


def test_what_is_not_exported_is_found_within_its_package() -> None:
    go = {
        "go.mod": "module x.org/a\n",
        "a.go": "package a\nfunc g() {}\n",
        "b.go": "package a\nfunc F() { g() }\n",
    }
    assert targets(go, "calls", "b.go:F") == {"a.go:g"}
    scala = {"A.scala": "package a\nprivate class A", "B.scala": "package a\nclass B { def f = new A }"}
    assert targets(scala, "calls", "B.scala:B.f") == {"A.scala:A"}
    python = {"a.py": "def _f(): ...\n", "b.py": "from a import _f\n_f()\n"}
    assert targets(python, "calls", "b.py:") == {"a.py:_f"}


def test_what_is_private_to_its_file_is_not_found_in_others() -> None:
    kotlin = {"A.kt": "private fun one() {}\nfun own() = one()", "B.kt": "fun two() = one()"}
    assert targets(kotlin, "calls", "A.kt:own") == {"A.kt:one"}
    assert targets(kotlin, "calls", "B.kt:two") == {"one"}

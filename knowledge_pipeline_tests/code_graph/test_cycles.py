"""Names that lead to themselves are followed once: no endless way, and no end of the stack."""

from __future__ import annotations

import pytest

from knowledge_pipeline.code_graph import resolve
from knowledge_pipeline_tests.code_graph.files import Files, edges_of, targets

OF_ITSELF = """class Node:
    @property
    def root(self):
        return self.root

    @property
    def top(self):
        return self.near

    @property
    def near(self):
        return self.top if self.parent else Node()

    @property
    def many(self):
        return self.many.many[0].many()

    def use(self):
        self.root.root.stop()
        self.top.near.stop()
        self.many.many.many.stop()

    def stop(self):
        pass
"""


def test_a_property_that_gives_itself_is_followed_once() -> None:
    assert "a.py:Node.stop" in targets({"a.py": OF_ITSELF}, "calls", "a.py:Node.use")
    assert targets({"a.py": OF_ITSELF}, "references", "a.py:Node.top") == {"a.py:Node.near"}


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.ts", "class A { get own() { return this.own } use() { this.own.x.y() } }"),
        ("a.kt", "class A {\n  val own get() = this.own\n  fun use() = own.own.x()\n}"),
        ("a.cs", "class A { A Own => Own.Own; void Use() { Own.X(); this.Own.Own.X(); } }"),
        ("a.scala", "class A { def own = this.own; def use() = own.own.x() }"),
        ("a.rb", "class A\n  def own\n    own\n  end\n  def use\n    own.own.x\n  end\nend\n"),
        ("a.php", "<?php class A { function own() { return $this->own(); }"
         " function f() { $this->own()->x(); } }"),
        ("a.py", "class constructor:\n  class constructor: ...\nx = constructor.constructor.constructor()\n"),
    ],
)  # fmt: skip
def test_what_is_defined_by_itself_has_an_end_in_every_language(path: str, text: str) -> None:
    assert edges_of({path: text})[path]


def test_results_in_a_circle_of_functions_and_files_have_an_end() -> None:
    count = 60
    texts = {
        f"m{n}.py": f"from m{(n + 1) % count} import make as other\n\ndef make():\n    return other().next\n"
        for n in range(count)
    }
    assert all(edges_of(texts).values())


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("a.py", "import {}\nx = {}()\n"),
        ("a.java", "import {};\nclass A {{ Object x = {}.of(); }}\n"),
        ("a.kt", "import {}\nval x = {}()\n"),
        ("a.cs", "using {};\nclass A {{ object x = {}(); }}\n"),
        ("a.rs", "use {};\nfn f() {{ {}(); }}\n"),
    ],
)
def test_a_name_of_many_parts_is_followed_to_its_end(path: str, line: str) -> None:
    for name in (".".join(["aa"] * 1200), "::".join(["aa"] * 1200)):
        assert path in edges_of({path: line.format(name, name)})


def test_headers_that_include_each_other_are_looked_through_once() -> None:
    count = 400
    include = '#include "h{}.h"\n'
    texts = {
        f"h{n}.h": include.format((n * 7 + 1) % count)
        + include.format((n + 1) % count)
        + f"static int f{n}(void) {{ return 1; }}\n"
        for n in range(count)
    }
    texts["main.c"] = '#include "h0.h"\nint main(void) { f9(); missing(); return f0(); }\n'
    assert targets(texts, "calls", "main.c:main") == {"h9.h:f9", "h0.h:f0", "missing"}
    assert len(resolve("main.c", Files(texts)).trace) < 2 * count * 2

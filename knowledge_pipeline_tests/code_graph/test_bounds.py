"""Files that are made to take long to resolve: work in proportion to their length, and bounded memory."""

from __future__ import annotations

import random
import tracemalloc

import pytest

from knowledge_pipeline.code_graph.evaluate import linearize
from knowledge_pipeline_tests.code_graph.files import resolved
from knowledge_pipeline_tests.counted import steps

MAX_BYTES = 250 << 20


def chain_in_python(classes: int) -> str:
    links = (f"class A{n}(A{n - 1}):\n    def m{n}(self):\n        self.m0()\n" for n in range(1, classes))
    return "class A0:\n    def m0(self):\n        pass\n" + "".join(links)


def chain_in_java(classes: int) -> str:
    links = (f"class A{n} extends A{n - 1} {{ void m{n}() {{ m0(); }} }}\n" for n in range(1, classes))
    return "class A0 { void m0() {} }\n" + "".join(links)


@pytest.mark.parametrize(("path", "build"), [("a.py", chain_in_python), ("A.java", chain_in_java)])
def test_a_chain_of_classes_takes_work_in_proportion_to_its_length(path: str, build) -> None:
    def count(classes: int) -> int:
        return steps(lambda: resolved({path: build(classes)}))

    count(10)  # what is made once a process
    assert count(900) <= 4 * count(300)


def test_twenty_thousand_imports_take_little_memory() -> None:
    text = "".join(f"import a{number}\n" for number in range(20_000))
    resolved({"a.py": "import a\n"})
    tracemalloc.start()
    try:
        file = resolved({"x.py": text})["x.py"]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(file.edges) == 20_000
    assert peak < MAX_BYTES  # took 1.7 GB


def test_an_import_among_too_many_is_resolved_again_when_its_module_appears() -> None:
    text = "".join(f"import a{number}\n" for number in range(20_000))
    last = "a19999.py"
    before = resolved({"x.py": text})["x.py"]
    after = resolved({"x.py": text, last: ""})["x.py"]
    assert last in {edge.target_path for edge in after.edges} - {edge.target_path for edge in before.edges}
    assert any(question.endswith("\ta19999") for question in before.trace)


def test_the_order_of_bases_is_that_of_python() -> None:
    generator = random.Random(7)
    compared = 0
    for _ in range(300):
        classes: list[type] = []
        for number in range(8):
            bases = tuple(generator.sample(classes, min(len(classes), generator.randint(0, 3)))) or (object,)
            try:
                classes.append(type(f"C{number}", bases, {}))
            except TypeError:  # C3 has no answer
                continue
        bases_of = {class_.__name__: [base.__name__ for base in class_.__bases__] for class_ in classes}

        def lineage(file: str, name: str, bases_of=bases_of) -> list:
            bases = [(file, base) for base in bases_of[name] if base != "object"]
            return linearize((file, name), lambda _: bases, lineage)

        for class_ in classes:
            names = [base.__name__ for base in class_.__mro__[:-1]]
            assert lineage("a.py", class_.__name__) == [("a.py", name) for name in names]
            compared += len(names) > 2
    assert compared > 500


def fluent(language: str, calls: int) -> tuple[str, str]:
    """A path, and a text with a class whose methods give itself, called one after the other."""
    chain = "".join(f"\n.step{number % 3}(f, {number})" for number in range(calls))
    names = [f"step{number}" for number in range(3)]
    if language == "python":
        methods = "".join(f"    def {name}(self, f, n) -> 'A': return self\n" for name in names)
        return (
            "a.py",
            f"class A:\n{methods}    def last(self): pass\ndef main(f):\n    (A(){chain}\n.last())\n",
        )
    if language == "go":
        methods = "".join(f"func (a *A) {name}(f int, n int) *A {{ return a }}\n" for name in names)
        dotted = "A{}" + chain.replace("\n.", ".\n")
        return (
            "a.go",
            f"package a\ntype A struct {{}}\n{methods}func (a *A) last() {{}}\n"
            f"func main() {{ {dotted}.last() }}\n",
        )
    methods = "".join(f"A {name}(F f, int n) {{ return this; }}\n" for name in names)
    body = f"class A {{ {methods} void last() {{}} static void main(F f) {{ new A(){chain}.last(); }} }}"
    return {"java": "A.java", "c_sharp": "A.cs"}[language], body


@pytest.mark.parametrize("language", ["python", "go", "java", "c_sharp"])
def test_a_chain_of_calls_is_followed_to_its_end_in_work_in_proportion_to_its_length(language: str) -> None:
    def count(calls: int) -> int:
        return steps(lambda: resolved(dict([fluent(language, calls)])))

    path, text = fluent(language, 100)
    name = "main" if language in ("python", "go") else "A.main"
    edges = [edge for edge in resolved({path: text})[path].edges if edge.source == name]
    last = [edge for edge in edges if edge.target.endswith("last")]
    assert [(edge.target_path, edge.confidence >= 0.9) for edge in last] == [(path, True)]
    assert not [edge.target for edge in edges if edge.target_path is None]
    assert count(100) <= 5 * count(25)

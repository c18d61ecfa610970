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

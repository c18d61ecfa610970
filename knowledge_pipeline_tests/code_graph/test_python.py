"""Which definitions Python's names mean, across files."""

from __future__ import annotations

import pytest

from knowledge_pipeline.code_graph import full_name, resolve
from knowledge_pipeline_tests.code_graph.files import Files, targets

STORE = """
class Base:
    def close(self): ...
    def me(self): return self

class Store(Base):
    child: "Store | None"
    def __init__(self):
        self.rows = []
        super().close()
    @classmethod
    def make(cls): return cls()
    @property
    def first(self): return self.rows[0]
    def get(self): ...
"""


def calls(body: str, **more: str) -> set[str]:
    """What `main` of `main.py` calls, beside `store.py`."""
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    texts = {"store.py": STORE, "main.py": f"from store import *\nimport store\ndef main():\n{lines}"}
    texts |= {name.replace("__", "/") + ".py": text for name, text in more.items()}
    return targets(texts, "calls", "main.py:main")


@pytest.mark.parametrize(
    ("body", "called"),
    [
        ("Store().get()", {"Store", "Store.get"}),
        ("store.Store().close()", {"Store", "Base.close"}),
        ("Store.make().get()", {"Store.make", "Store.get"}),
        ("Store.make().me().get()", {"Store.make", "Base.me", "Store.get"}),
        ("s = Store()\ns.child.get()", {"Store", "Store.get"}),
        ("s = Store()\ns.rows.append(Base())\nfor r in s.rows: r.close()", {"Store", "Base", "Base.close"}),
        ("if (s := Store()): s.get()", {"Store", "Store.get"}),
        ("table = {'a': Store, 'b': Base}\ntable['a']()", {"Store", "Base"}),
        ("a, b = Store(), Base()\nb.me().close()", {"Store", "Base", "Base.me", "Base.close"}),
        ("f = Store.make\nf()", {"Store.make"}),
        ("f = lambda: Store()\nf().get()", {"Store", "Store.get"}),
        ("x = getattr(store, 'Store')\nx()", {"Store"}),
        ("[s.get() for s in [Store.make()]]", {"Store.make", "Store.get"}),
        ("try: pass\nexcept Base as error: error.close()", {"Base.close"}),
        ("make: Callable[[], Store] = x\nmake().get()", {"Store.get"}),
        ("made: Coroutine[Base, Base, Store] = x\nmade.get()", {"Store.get"}),
        ("def inner(x: Store = None): x.get()\ninner()", {"main.inner"}),
    ],
)
def test_calls_lead_to_definitions(body: str, called: set[str]) -> None:
    found = {each.partition(":")[2] for each in calls(body)}
    assert found == called


def test_a_local_name_hides_what_has_its_name() -> None:
    assert calls("Store = unknown()\nStore()") == {"unknown", "Store"}
    assert calls("for Base in unknown(): Base.close()") == {"unknown"}


def test_an_annotation_of_more_than_two_hundred_words_says_nothing() -> None:
    union = " | ".join(["Store"] * 60)
    files = {"a.py": f"class Store:\n    def get(self): ...\ndef f(s: {union}): s.get()\n"}
    assert targets(files, "calls", "a.py:f") == {"a.py:Store.get"}
    files["a.py"] = files["a.py"].replace(union, f"{union} | {union}")
    assert "a.py:Store.get" not in targets(files, "calls", "a.py:f")


def test_a_context_manager_gives_what_its_function_yields() -> None:
    opened = "from contextlib import contextmanager\nfrom store import Store\n@contextmanager\n"
    declared = f"{opened}def opened(): yield Store()\n"
    assert calls("from opening import opened\nwith opened() as s: s.get()", opening=declared) == {
        "opening.py:opened",
        "store.py:Store.get",
    }


def test_what_is_imported_is_followed_through_packages() -> None:
    texts = {
        "src/app/__init__.py": "from .inner import Thing as Other, make\n__all__ = ['Other']\n",
        "src/app/inner/__init__.py": "from app.inner.deep import *\n",
        "src/app/inner/deep.py": "class Thing:\n    def go(self): ...\ndef make() -> Thing: ...\n",
        "tests/test_app.py": "import app.inner.deep as deep, app\ndef test():\n    app.Other().go()\n"
        "    deep.make().go()\n    app.make()\n",
    }
    assert targets(texts, "calls", "tests/test_app.py:test") == {
        "src/app/inner/deep.py:Thing",
        "src/app/inner/deep.py:Thing.go",
        "src/app/inner/deep.py:make",
    }
    assert targets(texts, "imports", "src/app/__init__.py:") == {
        "src/app/inner/__init__.py:",
        "src/app/inner/deep.py:Thing",
        "src/app/inner/deep.py:make",
    }


def test_a_package_that_hands_on_names_gives_them_other_full_names() -> None:
    texts = {
        "src/app/__init__.py": "from .inner import Thing\n",
        "src/app/inner.py": "class Thing:\n    def go(self): ...\n",
    }
    files = Files(texts)
    assert full_name("src/app/inner.py", "Thing.go", files) == "app.inner.Thing.go"
    assert full_name("src/app/__init__.py", "", files) == "app"
    assert [(each.full_name, each.target) for each in resolve("src/app/__init__.py", files).aliases] == [
        ("app.Thing", "Thing")
    ]


def test_folders_without_init_are_packages_too() -> None:
    texts = {
        "acme/cloud/storage/client.py": "class Client:\n    def get(self): ...\n",
        "run.py": "import acme.cloud.storage.client\nfrom acme.cloud import storage\ndef main():\n"
        "    acme.cloud.storage.client.Client().get()\n    storage.client.Client()\n",
    }
    assert targets(texts, "calls", "run.py:main") == {
        "acme/cloud/storage/client.py:Client",
        "acme/cloud/storage/client.py:Client.get",
    }


def test_a_module_of_a_package_does_not_hide_one_of_the_language() -> None:
    texts = {
        "app/__init__.py": "",
        "app/json.py": "def dumps(x): ...\n",
        "app/main.py": "import json\ndef main(): json.dumps(1)\n",
    }
    assert targets(texts, "calls", "app/main.py:main") == {"json.dumps"}


def test_a_module_beside_a_script_hides_one_of_the_language() -> None:
    main = "import json\ndef main(): json.dumps(1)\n"
    texts = {"tools/json.py": "def dumps(x): ...\n", "tools/run.py": main, "other/run.py": main}
    assert targets(texts, "calls", "tools/run.py:main") == {"tools/json.py:dumps"}
    assert targets(texts, "calls", "other/run.py:main") == {"json.dumps"}


def test_what_lies_outside_keeps_its_full_name() -> None:
    texts = {
        "a.py": "import requests\nfrom requests import Session as S\nclass Mine(S):\n    def go(self):\n"
        "        self.get(1)\n        super().close()\ndef main():\n    with S() as s: pass\n"
        "    requests.Session().get(2)\n    requests.get(3)\n"
    }
    assert targets(texts, "calls", "a.py:main") == {
        "requests.Session",
        "requests.Session.get",
        "requests.get",
    }
    assert targets(texts, "calls", "a.py:Mine.go") == {"requests.Session.get", "requests.Session.close"}
    assert targets(texts, "extends", "a.py:Mine") == {"requests.Session"}


def test_members_are_searched_in_the_order_of_bases() -> None:
    texts = {
        "a.py": "class O: \n    def f(self): ...\nclass A(O): pass\nclass B(O):\n    def f(self): ...\n"
        "class C(A, B):\n    def g(self):\n        self.f()\n        super(C, self).f()\n"
        "        super().f()\n"
    }
    assert targets(texts, "calls", "a.py:C.g") == {"a.py:B.f"}


def test_a_method_that_only_subclasses_have_is_found_below() -> None:
    texts = {
        "a.py": "class A:\n    def run(self): self.step()\n",
        "b.py": "from a import A\nclass B(A):\n    def step(self): ...\n"
        "class Other:\n    def step(self): ...\n",
    }
    assert targets(texts, "calls", "a.py:A.run") == {"b.py:B.step"}


def test_what_an_instance_holds_is_known_in_its_subclasses() -> None:
    texts = {
        "a.py": "class Other:\n    def put(self): ...\nclass Rows:\n    def put(self): ...\n"
        "class Base:\n    def __init__(this):\n        this.rows = Rows()\n",
        "b.py": "from a import Base\nclass Shop(Base):\n    def add(self):\n        self.rows.put()\n",
    }
    assert targets(texts, "calls", "b.py:Shop.add") == {"a.py:Rows.put"}


def test_the_only_method_of_a_name_is_a_guess() -> None:
    texts = {"a.py": "class A:\n    def frobnicate(self): ...\n", "b.py": "def main(x): x.frobnicate()\n"}
    edges = [edge for edge in resolve("b.py", Files(texts)).edges if edge.kind == "calls"]
    assert [(edge.target, edge.confidence) for edge in edges] == [("A.frobnicate", 0.5)]


def test_names_that_are_not_called_are_references() -> None:
    texts = {
        "a.py": "class A:\n    x = 1\n    def f(self): ...\ndef g(): ...\n",
        "b.py": "from a import A, g\ndef main(h: A = g):\n    print(A.x, h.f)\n    return {A.f: g}\n",
    }
    assert targets(texts, "references", "b.py:main") == {"a.py:A", "a.py:g", "a.py:A.x", "a.py:A.f"}


def test_a_property_is_referred_to_and_its_result_called() -> None:
    texts = {"a.py": "class A:\n    @property\n    def p(self): return self.q\n    def q(self): ...\n"
             "def main():\n    A().p()\n"}  # fmt: skip
    assert targets(texts, "references", "a.py:main") == {"a.py:A.p"}
    assert targets(texts, "calls", "a.py:main") == {"a.py:A", "a.py:A.q"}


def test_arguments_are_followed_into_functions_of_their_file() -> None:
    texts = {"a.py": "def run(job, then=None):\n    job()\n    then.go()\ndef work(): ...\nclass T:\n"
             "    def go(self): ...\nrun(work, then=T())\n"}  # fmt: skip
    assert targets(texts, "calls", "a.py:run") == {"a.py:work", "a.py:T.go"}


def test_code_that_goes_round_in_circles_ends() -> None:
    texts = {
        "a.py": "from b import *\nfrom b import x as y\nclass A(B): pass\nz = z.z()()[0]\nA().q.r()\n"
        "def f(): return g()\ndef g(): return f()\nf().go()\n",
        "b.py": "from a import *\nfrom a import y as x\nclass B(A):\n    def __iter__(self): return self\n"
        "for i in B(): i[0][0].go()\n",
    }
    for path in texts:
        assert resolve(path, Files(texts)).edges


def test_a_thousand_generations_of_classes_end() -> None:
    text = (
        "class C0: pass\n" + "".join(f"class C{i}(C{i - 1}): pass\n" for i in range(1, 1000)) + "C999().f()\n"
    )
    assert resolve("a.py", Files({"a.py": text})).edges

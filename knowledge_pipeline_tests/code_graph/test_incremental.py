"""An edit redoes only what it can affect, and leaves what a full run would give."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import requests
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge_pipeline.code_graph import (
    Earlier,
    Edge,
    ResolvedFile,
    Trace,
    find_changed_names,
    renew_trace,
    resolve,
)
from knowledge_pipeline_tests.code_graph.files import Files, Kept, resolved
from knowledge_pipeline_tests.code_graph.test_c_sharp import PROJECTS
from knowledge_pipeline_tests.code_graph.test_rust import CRATES
from knowledge_pipeline_tests.thoroughness import examples

TEXTS = {
    "app/__init__.py": [
        "from .store import Store\n",
        "from .store import *\nfrom .base import Base as Root\n",
        "from . import store\nStore = store.Store\n",
        "__all__ = ['Store']\nfrom .base import Base as Store\n",
    ],
    "app/base.py": [
        "class Base:\n    def close(self): return self\n    def only_here(self): pass\n",
        "class Base:\n    child: 'Base'\n    def close(self): return self.child\n",
        "from app import Store\nclass Base(Store):\n    def shut(self): self.close()\n",
        "def Base(): return None\n",
    ],
    "app/store.py": [
        "from .base import Base\nclass Store(Base):\n    def get(self): return self.close()\n"
        "def opened() -> Store:\n    return Store()\n",
        "from app.base import Base\nclass Store(Base):\n    rows: list[Base]\n    def get(self):\n"
        "        for row in self.rows: row.close()\n        return self.rows[0]\n"
        "def opened():\n    s = Store()\n    return s\n",
        "def opened(): return {}\n__all__ = ['opened']\n",
        "class Store:\n    @property\n    def get(self): return Other()\n"
        "class Other:\n    def close(self): pass\n",
    ],
    "app/use.py": [
        "from app import Store\nimport app.store as st\ndef main():\n    Store().get().close()\n"
        "    st.opened().get()\n    x.only_here()\n",
        "from app.store import opened\nwith opened() as o:\n    o.get().close()\n",
        "import app\napp.Store.get(app.store.opened())\nclass Mine(app.Store):\n    def go(self):"
        " super().get(); self.close()\n",
    ],
    "app/store/__init__.py": ["from ..base import Base as Store\ndef opened(): return Store()\n"],
    "only.py": ["class A:\n    def only_here(self): pass\n", "def only_here(): pass\n"],
}

_start = st.fixed_dictionaries({path: st.sampled_from([*texts, None]) for path, texts in TEXTS.items()})
_edit = st.sampled_from([(path, text) for path, texts in TEXTS.items() for text in (*texts, None)])


@settings(max_examples=examples(200), deadline=None)
@given(_start, st.lists(_edit, min_size=1, max_size=6))
def test_edits_resolved_by_traces_give_what_a_full_run_gives(
    texts: dict[str, str | None], edits: list[tuple[str, str | None]]
) -> None:
    kept = Kept()
    for path, text in [("", None), *edits]:
        texts = texts | {path: text}
        now = {each: text for each, text in texts.items() if text is not None}
        kept.update(now)
        assert kept.results == resolved(now)


_project_edit = st.sampled_from(
    [
        *((path, text) for texts in (PROJECTS, CRATES) for path, text in texts.items()),
        *((path, None) for path in (*PROJECTS, *CRATES)),
        ("Web/Web.csproj", PROJECTS["Shop/Shop.csproj"]),
        ("Other/Other.csproj", PROJECTS["Web/Web.csproj"]),
        ("Directory.Build.props", '<Project><Using Include="Acme.Core" /></Project>'),
        ("app/Cargo.toml", '[package]\nname = "app"\n[dependencies]\nbase = { package = "app" }\n'),
        ("core/src/macros.rs", "macro_rules! shout { () => {}; }\n"),
    ]
)


@settings(max_examples=examples(30), deadline=None)
@given(st.lists(_project_edit, min_size=1, max_size=6))
def test_edits_of_project_files_leave_what_a_full_run_gives(edits: list[tuple[str, str | None]]) -> None:
    kept, texts = Kept(), PROJECTS | CRATES
    kept.update(texts)
    for path, text in edits:
        others = {one: old for one, old in texts.items() if one != path}
        texts = others if text is None else others | {path: text}
        kept.update(texts)
        assert kept.results == resolved(texts)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("def f():\n    return A()\n", "def f():\n    return B()\n"),
        ("def f():\n    s = A()\n    return s\n", "def f():\n    s = B()\n    return s\n"),
        ("def f(x=A):\n    return x()\n", "def f(x=B):\n    return x()\n"),
        ("def f(x):\n    return x\nf(A())\n", "def f(x):\n    return x\nf(B())\n"),
        ("def f(): return [y for y in C().rows][0]\n", "def f(): return A()\n"),
        ("def f() -> 'A': ...\n", "def f() -> 'B': ...\n"),
    ],
)
def test_what_a_result_is_made_of_redoes_those_who_use_it(before: str, after: str) -> None:
    classes = (
        "class A:\n    def go(self): ...\nclass B:\n    def go(self): ...\n"
        "class C:\n    def __init__(self): self.rows = [B()]\n"
    )
    texts = {"a.py": classes + before, "b.py": "from a import f\nf().go()\n"}
    kept = Kept()
    kept.update(texts)
    once = kept.edges["b.py"]
    kept.update(texts | {"a.py": classes + after})
    assert kept.resolved == ["a.py", "b.py"]
    assert kept.edges["b.py"] != once


def test_a_second_method_of_a_name_redoes_those_who_guessed() -> None:
    texts = {
        "a.py": "class A:\n    def only(self): ...\n",
        "b.py": "def main(x): x.only()\n",
        "c.py": "class C:\n    def other(self): ...\n",
    }
    kept = Kept()
    kept.update(texts)
    kept.update(texts | {"c.py": "class C:\n    def only(self): ...\n"})
    assert kept.resolved == ["b.py", "c.py"]
    assert [edge.target for edge in kept.edges["b.py"] if edge.kind == "calls"] == ["x.only"]


def _resolve_after_renaming(earlier_edges: list[Edge], trace: Trace) -> ResolvedFile:
    before = Files(TWO_USES)
    after = Files(TWO_USES | {"a.py": TWO_USES["a.py"].replace("def first", "def renamed")})
    earlier = {path: before.file(path) for path in before.paths()}
    return resolve("b.py", after, Earlier(earlier_edges, trace, after.interfaces(), earlier))


TWO_USES = {
    "a.py": "def first(): ...\ndef second(): ...\n",
    "b.py": "import a\na.first()\na.second()\n",
}


def test_only_the_uses_whose_answers_may_differ_are_resolved_again() -> None:
    once = resolve("b.py", Files(TWO_USES))
    marked = [edge._replace(confidence=0.25) for edge in once.edges]  # as no resolution would give them
    again = _resolve_after_renaming(marked, once.trace)
    assert {edge.line: edge.confidence for edge in again.edges if edge.kind == "calls"} == {2: 0.0, 3: 0.25}
    assert not any(edge.target == "first" for edge in again.edges)


@pytest.mark.parametrize("without", ["uses", "all that was looked up"])
def test_a_trace_that_does_not_say_which_use_asked_what_redoes_all_of_them(without: str) -> None:
    once = resolve("b.py", Files(TWO_USES))
    trace = {entry: answer for entry, answer in once.trace.items() if entry != "uses"}
    if without != "uses":
        trace = {entry: answer for entry, answer in trace.items() if not entry.startswith("interface")}
    again = _resolve_after_renaming([], trace)
    assert again == _resolve_after_renaming(list(once.edges), once.trace)
    assert {edge.line for edge in again.edges if edge.kind == "calls"} == {2, 3}


def test_uses_that_share_a_cycle_are_redone_in_their_order() -> None:
    texts = {
        "a.py": "class A:\n    def step(self): return self.turn()\n    def turn(self): return self.step()\n",
        "b.py": "from a import A\nA().step().go()\nA().turn().go()\n",
        "c.py": "def go(): ...\n",
    }
    kept = Kept()
    kept.update(texts)
    assert "cycles" in kept.results["b.py"].trace
    edited = texts | {"a.py": texts["a.py"].replace("return self.step()", "return self.step() or A()")}
    kept.update(edited)
    assert kept.resolved == ["a.py", "b.py"]
    assert kept.results == resolved(edited)


def _package() -> dict[str, str]:
    root = Path(requests.__file__).parent
    return {f"requests/{path.name}": path.read_text("utf-8") for path in sorted(root.glob("*.py"))}


def test_an_edit_within_a_body_redoes_its_file_alone() -> None:
    texts, kept = _package(), Kept()
    kept.update(texts)
    assert len(kept.resolved) == len(texts)
    before = texts["requests/models.py"]
    after = before.replace("\n        return ", "\n        print(len([]))\n        return ", 3)
    assert after != before
    kept.update(texts | {"requests/models.py": after})
    assert kept.resolved == ["requests/models.py"]


def test_nothing_is_redone_when_nothing_changed() -> None:
    kept = Kept()
    kept.update(_package())
    kept.update(_package())
    assert kept.resolved == []


def test_a_file_that_goes_concerns_those_who_asked_for_its_names_or_for_where_modules_lie() -> None:
    before = Files({"a.py": "def f(): pass\n", "b.py": "def g(): pass\n", "c.py": "def f(): pass\n"})
    after = Files({"b.py": "def g(): pass\n", "c.py": "def f(): pass\n"})
    changes = find_changed_names({"a.py": before.facts("a.py")}, {})
    assert "f" in changes.names and "g" not in changes.names and changes.moves_modules
    interfaces = after.interfaces()
    assert renew_trace({"defining\tg": "as it was"}, after, interfaces, changes) == {
        "defining\tg": "as it was"
    }
    assert renew_trace({"defining\tf": "as it was"}, after, interfaces, changes) is None
    assert renew_trace({"modules\tpython\tb.py\tg": "as it was"}, after, interfaces, changes) is None


def test_a_definition_that_others_see_redoes_those_who_asked() -> None:
    texts = {
        "a.py": "def f(): return 1\n",
        "b.py": "from a import f\nf()\n",
        "c.py": "def g(): pass\n",
        "d.py": "from c import g\ng()\n",
    }
    kept = Kept()
    kept.update(texts)
    kept.update(texts | {"a.py": "class f: pass\n"})
    assert kept.resolved == ["a.py", "b.py"]


READ_BY_ALL = """
class Root:
    def close(self): return self
    def clear(self): return 1
class Base(Root):
    def shut(self): return self.clear()
def opened(): return Base()
def other(): return 1
"""
READERS = {
    "asks_opened.py": "from base import opened\nopened().close()\n",
    "asks_other.py": "from base import other\nother()\n",
    "extends.py": "from base import Base\nclass Mine(Base):\n    def go(self): self.clear()\n",
    "heir.py": "from extends import Mine\nMine().close()\n",
    "module.py": "import base\nbase.added()\n",
    "star.py": "from base import *\nadded()\nclass It(Base): pass\n",
    "star_of_star.py": "from star import other\nother()\n",
}


@pytest.mark.parametrize(
    ("before", "after", "redone"),
    [
        # who asked for the name: of the module, or by an import of everything
        ("def other", "def added(): pass\ndef other", ["module.py", "star.py"]),
        ("def other", "def unasked(): pass\ndef other", ["star.py"]),
        # a method: who asked for it by lineage, and who hands its class on with all members
        ("def close", "def finish", ["asks_opened.py", "heir.py", "star.py"]),
        ("def clear", "def empty", ["extends.py", "star.py"]),
        ("def shut", "def stop", ["star.py"]),
        # what a class extends: all who went through the class
        ("Base(Root)", "Base", ["asks_opened.py", "extends.py", "heir.py", "star.py"]),
        ("def other", "__all__ = ['other']\ndef other", sorted(READERS)),
        ("def opened(): return Base()", "def opened(): return Root()", ["asks_opened.py"]),
        ("class Root:\n", "\n# moved\nclass Root:\n", []),
    ],
)
def test_an_edit_of_what_all_read_redoes_who_asked_for_that(
    before: str, after: str, redone: list[str]
) -> None:
    kept, texts = Kept(), READERS | {"base.py": READ_BY_ALL}
    kept.update(texts)
    edited = texts | {"base.py": READ_BY_ALL.replace(before, after)}
    kept.update(edited)
    assert [path for path in kept.resolved if path != "base.py"] == redone
    assert kept.results == resolved(edited)


def test_a_change_of_the_names_that_a_file_lists_redoes_who_asked_for_those() -> None:
    listing = READ_BY_ALL + "__all__ = ['other', 'Base']\n"
    texts, kept = READERS | {"base.py": listing}, Kept()
    kept.update(texts)
    edited = texts | {"base.py": listing.replace("['other'", "['opened'")}
    kept.update(edited)
    assert kept.resolved == ["base.py", "star.py", "star_of_star.py"]
    assert kept.results == resolved(edited)


_name = st.sampled_from(["Alpha", "Beta", "go", "run", "_kept"])
_value = st.sampled_from(
    ["1", "Alpha()", "Beta().go()", "go()", "self.item", "self.run()", "run().item", "m.Beta"]
)
_method = st.tuples(_name, _value).map(lambda of: f"    def {of[0]}(self):\n        return {of[1]}\n")
_field = st.tuples(st.sampled_from(["item", "go"]), _value).map(lambda of: f"    {of[0]} = {of[1]}\n")
_class = st.tuples(
    _name, st.sampled_from(["", "(Alpha)", "(Beta)", "(m.Alpha)"]), st.lists(_method | _field, max_size=3)
).map(lambda of: f"class {of[0]}{of[1]}:\n    x = 0\n{''.join(of[2])}")
_function = st.tuples(_name, _value).map(lambda of: f"def {of[0]}(x=0):\n    y = {of[1]}\n    return y\n")
_listed = st.lists(_name, max_size=3).map(lambda names: f"__all__ = {names}\n")
_module = st.sampled_from(["a", "b", "c"])
_import = st.tuples(_module, _name | st.just("*")).map(lambda of: f"from {of[0]} import {of[1]}\n")
_import |= _module.map(lambda module: f"import {module} as m\n")
_part = _import | _class | _function | _listed | _value.map(lambda value: f"{value}\n")
_parts = st.lists(_part, max_size=6)


@pytest.mark.slow
@settings(max_examples=examples(80), deadline=None)
@given(st.fixed_dictionaries(dict.fromkeys(("a.py", "b.py", "c.py", "d.py"), _parts)), st.data())
def test_edits_of_what_files_show_leave_what_a_full_run_gives(
    parts: dict[str, list[str]], data: st.DataObject
) -> None:
    kept = Kept()
    kept.update({path: "".join(each) for path, each in parts.items()})
    for _ in range(4):
        path = data.draw(st.sampled_from(sorted(parts)))
        place = data.draw(st.integers(0, len(parts[path])))
        rest = parts[path][place + data.draw(st.integers(0, 1)) :]
        parts = parts | {path: parts[path][:place] + data.draw(st.lists(_part, max_size=1)) + rest}
        texts = {each: "".join(of) for each, of in parts.items()}
        kept.update(texts)
        assert kept.results == resolved(texts)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_random_edits_of_a_real_package_give_what_a_full_run_gives(seed: int) -> None:
    chance = random.Random(seed)
    texts, kept = _package(), Kept()
    kept.update(texts)
    for _ in range(4):
        path = chance.choice(sorted(texts))
        texts = _edited(texts, path, chance)
        kept.update(texts)
        assert kept.results == resolved(texts)


def _edited(texts: dict[str, str], path: str, chance: random.Random) -> dict[str, str]:
    """One file removed, or a few of its lines, or a word renamed in it."""
    what = chance.random()
    if what < 0.2:
        return {each: text for each, text in texts.items() if each != path}
    lines = texts[path].splitlines(keepends=True)
    if what < 0.6:
        start = chance.randrange(len(lines))
        return texts | {path: "".join(lines[:start] + lines[start + chance.randrange(1, 12) :])}
    word = chance.choice([word for word in texts[path].split() if word.isidentifier()])
    return texts | {path: texts[path].replace(word, f"{word}_2")}

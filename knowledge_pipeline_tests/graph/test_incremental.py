"""An edit redoes only what it can affect, and leaves what a full run would give."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import requests
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge_pipeline_tests.graph.files import Kept, edges_of

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

_choice = st.fixed_dictionaries({path: st.sampled_from([None, *texts]) for path, texts in TEXTS.items()})


@settings(max_examples=150, deadline=None)
@given(st.lists(_choice, min_size=2, max_size=4))
def test_edits_resolved_by_traces_give_what_a_full_run_gives(versions: list[dict[str, str | None]]) -> None:
    kept = Kept()
    for version in versions:
        texts = {path: text for path, text in version.items() if text is not None}
        kept.update(texts)
        assert kept.edges == edges_of(texts)


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


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_random_edits_of_a_real_package_give_what_a_full_run_gives(seed: int) -> None:
    chance = random.Random(seed)
    texts, kept = _package(), Kept()
    kept.update(texts)
    for _ in range(4):
        path = chance.choice(sorted(texts))
        texts = _edited(texts, path, chance)
        kept.update(texts)
        assert kept.edges == edges_of(texts)


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

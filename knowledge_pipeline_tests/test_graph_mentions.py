"""What `benchmarks.graph_mentions` counts as a mention, and which edges it takes for one."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from benchmarks.graph_mentions import (
    count_kinds,
    list_files,
    read_code,
    read_edges,
    read_names,
    read_taken,
    score,
)
from knowledge_pipeline_tests.conftest import Project

FILES: Mapping[str, str] = {
    "shop/store.py": "class Store:\n    class Key:\n        pass\n\n    def get(self):\n        return 1\n",
    "shop/app.py": "from shop.store import Store\n\n\ndef main():\n    return Store().get()\n",
    "shop/late.py": "def load(name):\n    return globals()[name] or Store\n",
    "shop/notes.py": '# Store\n\n\ndef note():\n    """Of the Store."""\n    return "Store", Key\n',
    "web/order.ts": "export class Order {}\nexport interface Twice {}\n",
    "web/again.ts": "interface Twice {}\n",
    "web/Cart.vue": "<template><Store/></template>\n<script setup>\nnew Order() as Twice\n</script>\n",
    "store.h": "class EXPORT_IT Table final : public Base {};\nclass Order;\n",
    "store.cc": "Table::Table() {}\n",
    "logo.png": "no picture",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    for path, text in FILES.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    subprocess.run(["git", "init", "-q", folder], check=True)
    subprocess.run(["git", "-C", folder, "add", "."], check=True)
    return folder


def test_a_mention_is_a_word_of_code_in_another_file(folder):
    mentions = sorted(read_names(folder, list_files(folder)).list_mentions())
    assert mentions == [
        ("cpp", "store.cc", "Table"),
        ("python", "shop/app.py", "Store"),
        ("python", "shop/late.py", "Store"),
        ("vue", "web/Cart.vue", "Order"),
    ]


@pytest.mark.parametrize(
    ("text", "language", "kept", "dropped"),
    [
        ('f"{Store.name} of Shop"', "python", "Store", "Shop"),
        ("`${new Store()} of Shop`", "typescript", "Store", "Shop"),
        ('$"{new Store()} of Shop"', "c_sharp", "Store", "Shop"),
        ("// Shop\nStore store; /* Shop */", "cpp", "Store", "Shop"),
        ("Shop <script lang='ts'>new Store() // Shop\n</script>", "vue", "Store", "Shop"),
    ],
)
def test_code_within_a_string_is_code(text, language, kept, dropped):
    code = read_code(text, language)
    assert kept in code and dropped not in code


def test_an_edge_to_a_class_or_a_member_of_it_counts(project: Project, folder):
    project.declare("code", "code", folder)
    project.refresh()
    names, edges = read_names(folder, list_files(folder)), read_edges(project.lake, "code")
    rows = {row.language: row for row in score(names, edges, {"python": 0.5})}
    python = rows["python"]
    assert (python.mentions, python.with_edge, python.claimed) == (2, 1, 0.5)
    assert python.missed == [("shop/late.py", "Store")] and python.share == 0.5
    not_taken = count_kinds({*list_files(folder)} - read_taken(project.lake, [("code", "code")]))
    assert not_taken == {".png": 1}

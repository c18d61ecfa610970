"""`search` shows what code has to do with, as a person and as a program sees it."""

from __future__ import annotations

from pathlib import Path

import pytest

from knowledge_pipeline_tests.cli.conftest import Run, copy_indexed, index_files
from knowledge_pipeline_tests.fakes.openai_server import OpenAIServer

STORE = """\
import json


class Store:
    def fetch_parcel(self, key):
        return json.loads(self.locate(key))

    def locate(self, key):
        return key


class DiskStore(Store):
    pass
"""


@pytest.fixture(scope="module")
def parcels_once(tmp_path_factory: pytest.TempPathFactory, embedding_server: OpenAIServer) -> Path:
    """A repository with a store that six programs use, indexed by methods."""
    files = {"store.py": STORE}
    for number in range(6):
        use = f"def program_{number}():\n    return Store().fetch_parcel({number})\n"
        files[f"program_{number}.py"] = f"from store import Store\n\n\n{use}"
    return index_files(tmp_path_factory.mktemp("parcels"), embedding_server, **files)


@pytest.fixture
def parcels(
    parcels_once: Path, tmp_path: Path, embedding_server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A copy of it."""
    monkeypatch.setenv("EMBEDDING_KEY", embedding_server.key)
    return copy_indexed(parcels_once, tmp_path, monkeypatch).parent / "shop"


def test_search_tells_what_code_calls_and_what_calls_it(parcels: Path, run: Run):
    shown = run("search", "fetch parcel locate key json", "--type", "code", "--limit", "1").out.splitlines()
    assert (
        "   called by program_0 program_0.py:5, program_1 program_1.py:5, program_2 program_2.py:5, 3 more"
        in (shown)
    )
    assert "   calls json.loads" in shown and "   imports json" in shown


def test_search_as_json_has_them_typed(parcels: Path, run: Run):
    answer = run("search", "fetch parcel locate key json", "--type", "code", "--limit", "1", "--json").json
    (result,) = answer["results"]
    assert set(result["graph"]) == {"calls", "called_by", "imports", "extends", "implemented_by", "omitted"}
    assert result["graph"]["called_by"][0] == {
        "name": "program_0", "source": "shop-code", "path": "program_0.py", "line": 5, "signature": "",
        "edge_line": 5, "resolution": "by import or scope", "confidence": 1.0, "file_state": "same",
    }  # fmt: skip
    assert result["graph"]["omitted"] == {"called_by": 1}

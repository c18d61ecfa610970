"""Memberships and withheld documents of many sources, kept as they change, against those read at once."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge_pipeline.query import access as audiences
from knowledge_pipeline.query.access import Access, Audiences
from knowledge_pipeline.query.open_release import LiveIndex
from knowledge_pipeline.store import release
from knowledge_pipeline.store.access import build_audience_principal, write_audiences
from knowledge_pipeline.store.filters import eq
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.lance_storage import remove_path
from knowledge_pipeline.store.tables import Table
from knowledge_pipeline_tests.query.search import rows
from knowledge_pipeline_tests.thoroughness import examples

SPACE = "space"
SOURCES = ("a", "b", "c")
ROOMS = ("hall", "vault")
ADA = Access("acme", frozenset({"ada"}), audience_sources=frozenset(SOURCES))
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["move", "move", "index", "index", "admit", "publish", "publish", "go back", "compact", "purge"]
        ),
        st.sampled_from(SOURCES),
        st.integers(0, 3),
    ),
    min_size=1,
    max_size=12,
)


class Store:
    """A few sources with two documents each, of which each is in one of two rooms."""

    def __init__(self, folder: Path, sources: tuple[str, ...] = SOURCES) -> None:
        self.lake = Lake(folder)
        for source in sources:
            self.admit(source, 1)
            for number in (0, 2):
                self.move(source, number)
                self.index(source, number)
        rows.publish(self.lake)

    def move(self, source: str, number: int) -> None:
        """Let a document be in another room: the refresh has read it."""
        room, document = ROOMS[number % 2], f"{source}/{number // 2}"
        table = self.lake.snapshot("slack", source)
        row = {
            **{name: "" for name in table.schema.names if table.schema.field(name).type == pa.string()},
            **{"uri": document, "path": document, "text": "", "audience": room, "skipped": None},
        }
        row = {name: row.get(name) for name in table.schema.names}
        table.upsert([pa.RecordBatch.from_pylist([row], schema=table.schema)])

    def index(self, source: str, number: int) -> None:
        """Let the row of a document name the room of now."""
        document = f"{source}/{number // 2}"
        stored = self.lake.snapshot("slack", source).read_rows(["audience"], eq("uri", document)).to_pylist()
        named = [build_audience_principal("slack", source, each["audience"]) for each in stored]
        shown = {"source": source, "source_type": "slack", "visibility": "private", "tenant": "acme"}
        rows.write(self.lake, SPACE, [rows.row("text", document, principals=named, **shown)])

    def admit(self, source: str, number: int) -> None:
        """Let Ada into one of the rooms, both, or none."""
        rooms = {room: [frozenset({"ada"} if number >> at & 1 else {"ben"})] for at, room in enumerate(ROOMS)}
        write_audiences(self.lake.audiences("slack", source), rooms)

    def go_back(self, number: int) -> None:
        kept = release.list_releases(self.lake)
        release.restore_release(self.lake, kept[-1 - number % len(kept)].release, keep=5)

    def purge(self, source: str) -> None:
        remove_path(self.lake.audiences("slack", source).path)
        remove_path(self.lake.snapshot("slack", source).path)
        self.lake.index(SPACE, rows.DIMENSIONS).delete_where(eq("source", source))

    def take(self, what: str, source: str, number: int) -> None:
        if what == "publish":
            rows.publish(self.lake)
        elif what == "go back":
            self.go_back(number)
        elif what == "compact":
            self.lake.index(SPACE, rows.DIMENSIONS).compact()
        elif what == "purge":
            self.purge(source)
        else:
            {"move": self.move, "index": self.index, "admit": self.admit}[what](source, number)


def ask(kept: Audiences) -> tuple[frozenset[str], frozenset[tuple[str, str]]]:
    """Where Ada is a member, and what is withheld from her."""
    access = asyncio.run(kept.add(ADA, {}))
    return access.audiences, access.withheld_documents


@contextmanager
def always_looking() -> Iterator[None]:
    """No pause between two looks, however busy the machine is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(audiences, "_MAX_PAUSE_S", 0.0)
        yield


@pytest.mark.slow
@settings(max_examples=examples(25), deadline=None)
@given(steps=STEPS)
def test_what_is_kept_through_any_history_is_what_is_read_at_once(steps: Any) -> None:
    with tempfile.TemporaryDirectory() as folder, always_looking():
        store = Store(Path(folder))
        kept = Audiences(store.lake, LiveIndex(store.lake))
        ask(kept)
        for step in steps:
            store.take(*step)
            assert ask(kept) == ask(Audiences(store.lake, LiveIndex(store.lake))), step


def test_what_is_kept_follows_documents_rows_and_members(tmp_path: Path) -> None:
    """The same, of one history that every run goes through."""
    with always_looking():
        store = Store(tmp_path)
        kept = Audiences(store.lake, LiveIndex(store.lake))
        hall = {build_audience_principal("slack", source, "hall") for source in SOURCES}
        assert ask(kept) == (hall, frozenset())
        store.move("a", 1)
        store.admit("b", 0)
        hall.remove(build_audience_principal("slack", "b", "hall"))
        assert ask(kept) == (hall, {("a", "a/0")})
        store.index("a", 1)
        assert ask(kept) == (hall, {("a", "a/0")}), "it is not released yet"
        rows.publish(store.lake)
        assert ask(kept) == (hall, frozenset())
        store.go_back(1)
        assert ask(kept) == (hall, {("a", "a/0")})
        store.purge("c")
        hall.remove(build_audience_principal("slack", "c", "hall"))
        assert ask(kept) == (hall, {("a", "a/0")})


def test_of_many_sources_those_that_changed_are_read_alone(tmp_path: Path, monkeypatch) -> None:
    sources = tuple(f"s{number}" for number in range(12))
    read, read_rows = list[str](), Table.read_rows

    def note(table: Table, *args: Any, **options: Any) -> pa.Table:
        read.append(f"{table.path.parent.parent.name}/{table.name}")
        return read_rows(table, *args, **options)

    with always_looking():
        store = Store(tmp_path, sources)
        kept = Audiences(store.lake, LiveIndex(store.lake))
        ask(kept)
        store.move("s3", 1)
        store.index("s4", 0)
        store.admit("s5", 2)
        rows.publish(store.lake)
        monkeypatch.setattr(Table, "read_rows", note)
        ask(kept)
    of_sources = sorted(each for each in read if each.startswith(("snapshot/", "audiences/")))
    assert of_sources == ["audiences/s5", "snapshot/s3", "snapshot/s4"]

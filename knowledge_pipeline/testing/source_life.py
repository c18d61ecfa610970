"""A scripted life of a source: what is stored must follow what it reads, whatever happens between."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.errors import KnowledgeError
from knowledge_pipeline.stages import pipeline
from knowledge_pipeline.stages.context import RefreshOptions
from knowledge_pipeline.stages.progress import ProgressCallback, ignore_progress
from knowledge_pipeline.stages.snapshot import make_full_listing_due
from knowledge_pipeline.store.lake import Lake

_ID = "under-test"
_MAX_KILLS = 12
_TIMES = frozenset({"indexed_at", "updated_at", "at", "archived_at", "shown"})


class SourceWorld(Protocol):
    """What a source reads, as a test may change it: a folder, or a small server with its documents.

    Names are the world's own. The text of a document must come out as it was written, or inside a longer
    text, and a change must be seen by the next listing.
    """

    def entry(self) -> Mapping[str, Any]:
        """The source in knowledge.yaml, without `id`: `type`, `connection`, and what else it needs."""
        ...

    def write(self, name: str, text: str) -> None:
        """Create a document, or change its text."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Give a document another name; its text stays."""
        ...

    def remove(self, name: str) -> None:
        """Delete a document."""
        ...

    def break_listing(self) -> None:
        """Make every listing fail, as an outage would, until `repair`."""
        ...

    def repair(self) -> None:
        """Let listings succeed again."""
        ...


def check_source_life(world: SourceWorld, store: Path) -> None:
    """Take a source through its life: create, edit, rename, remove, outages, kills; into an empty store.

    Of an `ApiSource`, edits and new documents must be among the updates that it lists, and what is removed
    missing from its full listing, which the check makes due.

    Uses the model that comes with the package, no network. Takes some seconds.

    Raises:
        AssertionError: documents are lost, kept or read again where they should not be.
        KnowledgeError: a refresh failed that should have succeeded.
    """
    life = _Life(world, store)
    life.require_texts(set(), "before the first document", allow_failure=True)
    for name, text in (
        ("first", "The heron waits."),
        ("second", "An otter dives."),
        ("third", "Owls listen."),
    ):
        world.write(name, text)
    life.require_texts({"heron", "otter", "Owls"}, "after three documents are created")
    life.require_no_change("where nothing changed")
    world.write("first", "The crane waits.")
    life.require_texts({"crane", "otter", "Owls"}, "after an edit", changes=1)
    world.rename("second", "fourth")
    life.require_texts({"crane", "otter", "Owls"}, "after a document is renamed")
    _check_outage(life, world)
    world.remove("third")
    life.require_texts({"crane", "otter"}, "after a document is removed", is_due=True)
    life.require_full_is_the_same()
    for at in range(1, _MAX_KILLS):
        world.write("first", f"The crane number{at} waits.")
        world.rename("fourth" if at % 2 else "fifth", "fifth" if at % 2 else "fourth")
        if not life.kill_at(at):
            break
        life.require_texts({f"number{at}", "otter"}, f"after a kill at the report {at}")
    life.require_texts({"crane", "otter"}, "after all kills")
    life.require_full_is_the_same()


def _check_outage(life: _Life, world: SourceWorld) -> None:
    before = life.read_tables()
    world.write("first", "The stork waits.")
    world.break_listing()
    failure = life.refresh_or_fail()
    assert failure is not None, "a refresh succeeds while the listing is broken: what fails must raise"
    assert isinstance(failure, KnowledgeError)
    assert life.read_tables() == before, f"a failed listing ({failure}) changes what is stored"
    world.repair()
    life.require_texts({"stork", "otter", "Owls"}, "after an outage")
    world.write("first", "The crane waits.")
    life.require_texts({"crane", "otter", "Owls"}, "after an outage and an edit")


class _Killed(BaseException):
    """Stands for the end of the process."""


class _Life:
    """One source in one store, refreshed as a user would."""

    def __init__(self, world: SourceWorld, store: Path) -> None:
        entry = {"id": _ID, **world.entry()}
        embedding = {"provider": "local", "model": "static-v1"}
        self._settings = Settings.model_validate({"store": store, "embedding": embedding, "sources": [entry]})
        self._source = self._settings.sources[0]
        self._lake = Lake(self._settings.store)

    def refresh_or_fail(
        self, *, report: ProgressCallback = ignore_progress, full: bool = False
    ) -> KnowledgeError | None:
        outcome = pipeline.refresh(
            self._lake, self._settings, [self._source], RefreshOptions(full=full), report=lambda _: report
        )
        self._stats = outcome.stats
        return next(iter(outcome.failures.values()), None)

    def refresh(self, *, full: bool = False) -> None:
        if failure := self.refresh_or_fail(full=full):
            raise failure

    def kill_at(self, count: int) -> bool:
        """Refresh, and stop at a report of progress; False if it came to its end."""
        left = count

        def die(stage: str, done: int, total: int | None, share: float | None = None, /) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                raise _Killed

        with suppress(_Killed):
            if failure := self.refresh_or_fail(report=die):
                raise failure
            return False
        return True

    def require_texts(
        self,
        words: set[str],
        when: str,
        *,
        changes: int | None = None,
        allow_failure: bool = False,
        is_due: bool = False,
    ) -> None:
        """Refresh; the words, and as many documents as words, are what is found.

        `is_due`: everything is listed, where else only updates are.
        """
        if is_due:
            make_full_listing_due(self._lake, self._source)
        failure = self.refresh_or_fail()
        if failure and not allow_failure:
            raise failure
        if failure:
            return
        snapshot = self._stats[0]
        if changes is not None:
            written = snapshot.added + snapshot.changed
            assert written == changes, f"{when}: {written} documents are read, not {changes}"
        live = [row for rows in self.read_tables(live=True).values() for row in rows if "anchor" in row]
        texts = {row["uri"]: "" for row in live}
        for row in live:
            texts[row["uri"]] += f"{row['header']}\n{row['text']}\n"
        for word in sorted(words):
            having = sorted(uri for uri, text in texts.items() if word in text)
            assert len(having) == 1, f"{when}: {word!r} is in {having or 'no document'}, not in one document"
        assert len(texts) == len(words), f"{when}: {sorted(texts)} are found, not {len(words)} documents"

    def require_no_change(self, when: str) -> None:
        """Refresh; no stage has anything to do."""
        self.refresh()
        busy = [stat.stage for stat in self._stats if stat.has_changes]
        assert not busy, f"{when}: {busy} changed rows; a revision stays while its document does"

    def require_full_is_the_same(self) -> None:
        """Reading everything again leaves what is stored."""
        stored = self.read_tables()
        self.refresh(full=True)
        again = self.read_tables()
        for name, rows in stored.items():
            assert again[name] == rows, (
                f"reading everything again gives other rows of {name}: a revision must change whenever its "
                f"document does ({_describe_difference(rows, again[name])})"
            )

    def read_tables(self, *, live: bool = False) -> dict[str, list[dict[str, Any]]]:
        """The rows of the documents, the chunks and the index, but for times of writing."""
        stages = (self._lake.snapshot, self._lake.chunks)
        stored_tables = {stage.__name__: stage(self._source.type, _ID) for stage in stages}
        stored_tables |= {
            f"index {name}": self._lake.index(name, size) for name, size in self._lake.list_spaces().items()
        }
        tables: dict[str, list[dict[str, Any]]] = {}
        for name, table in stored_tables.items():
            rows: list[dict[str, Any]] = (
                table.read_rows(table.schema.names).to_pylist() if table.exists else []
            )
            if live:
                rows = [row for row in rows if not row.get("archived") and not row.get("archived_at")]
            tables[name] = sorted(
                map(_without_times, rows), key=lambda row: (row["uri"], row.get("id") or "")
            )
        return tables


def _without_times(row: dict[str, Any]) -> dict[str, Any]:
    is_archived = {"archived_at": bool(row["archived_at"])} if "archived_at" in row else {}
    return {key: value for key, value in row.items() if key not in _TIMES} | is_archived


def _describe_difference(before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]) -> str:
    for one, other in zip(before, after, strict=False):
        if differing := sorted(key for key in one if one[key] != other.get(key)):
            return f"{', '.join(differing)} of {one['uri']}"
    return f"{len(before)} rows, then {len(after)}"

"""The overlay of a working tree: its sources as that tree has them, over the release of all others.

A tree is another working tree of a repository that folders of sources lie in, or the same one with changes
that no refresh has read yet. The stages read what differs into a store of its own in the folder of what can
be made again, which shares everything else with the release: see `link_release`. It is read like a release,
by whoever asks from that tree, and is removed when the tree is gone or nothing in it differs any more.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from knowledge_pipeline.config.connections import LocalConnection, WorktreeConnection
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.config.sources import SourceConfig
from knowledge_pipeline.connectors.git.checkout import CHECKOUTS, name_checkout
from knowledge_pipeline.connectors.git.command import find_checkout, find_common_folder
from knowledge_pipeline.connectors.registry import list_notes
from knowledge_pipeline.embedding.registry import resolve_space
from knowledge_pipeline.errors import KnowledgeError, NotFound, SourceRefused
from knowledge_pipeline.records import hash_strings
from knowledge_pipeline.stages.context import (
    Listing,
    RefreshContext,
    RefreshOptions,
    Stats,
    open_listed_source,
)
from knowledge_pipeline.stages.progress import ProgressCallback, ignore_progress
from knowledge_pipeline.stages.snapshot import is_up_to_date
from knowledge_pipeline.stages.unchanged import hash_listing, identify_program
from knowledge_pipeline.stages.upkeep import PostponedUpkeep
from knowledge_pipeline.store.filters import is_null
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.locks import acquire_lock
from knowledge_pipeline.store.release import (
    Release,
    find_live_release,
    keep_equal_tree,
    link_release,
    name_release,
    publish_release,
    recall_equal_trees,
)

MAX_DOCUMENTS = 1_000  # that differ, of a source: more is work for a refresh
MAX_TEXTS = 128  # without a vector, that a question waits for; a model of this machine takes a second or two
LOCK_TIMEOUT_S = 60.0
_TREE, _COMPLETE, _MADE_BY = "tree", "complete", "made_by"
"""Files: the folder of the tree; whether all stages have ended; what they did it by."""


@dataclass(frozen=True, slots=True)
class SourceTree:
    """A working tree, and the settings of a store with the sources that are read from it."""

    root: Path
    settings: Settings
    sources: tuple[SourceConfig, ...]  # as the tree has them

    @property
    def is_first(self) -> bool:
        """Whether it is where the sources' folders are, which a refresh reads."""
        return not any(isinstance(source.connection, WorktreeConnection) for source in self.sources)


@dataclass(frozen=True, slots=True)
class Overlay:
    """What answers for a working tree."""

    lake: Lake  # the store itself where nothing differs
    stats: tuple[Stats, ...] = ()  # of what this refresh did, source by source

    @property
    def documents(self) -> int:
        """How many this refresh read, or left out because they are gone."""
        snapshots = (stats for stats in self.stats if stats.stage == "snapshot")
        return sum(stats.added + stats.changed + stats.removed for stats in snapshots)


def find_source_tree(settings: Settings, folder: Path) -> SourceTree | None:
    """The working tree around a folder, if sources are read from its repository.

    Those with permissions of their own are left out: nobody has said who may read what is new in a tree.
    """
    root = find_checkout(folder.resolve())
    if root is None or not (root / ".git").exists():
        return None
    common, sources = _find_common(root), dict[str, SourceConfig]()
    for source in settings.sources:
        connection = source.connection
        if not isinstance(connection, LocalConnection) or source.access.visibility == "from_source":
            continue
        origin = connection.path.expanduser().resolve()
        checkout = find_checkout(origin)
        if checkout == root:
            sources[source.id] = source
        elif checkout and common and _find_common(checkout) == common:
            path = root / origin.relative_to(checkout)
            moved = WorktreeConnection(type="local", path=path, origin=connection.path)
            sources[source.id] = source.model_copy(update={"connection": moved})
    if not sources:
        return None
    declared = tuple(sources.get(source.id, source) for source in settings.sources)
    return SourceTree(root, settings.model_copy(update={"sources": declared}), tuple(sources.values()))


def _find_common(checkout: Path) -> Path | None:
    with suppress(OSError):
        return find_common_folder(checkout)
    return None


def refresh_overlay(
    base: Lake, tree: SourceTree, *, is_bounded: bool = True, report: ProgressCallback = ignore_progress
) -> Overlay:
    """Bring the overlay of a working tree up to date, if anything in the tree differs from the store.

    A question is bounded: it reads few documents, and waits for no more than a few vectors.

    Raises:
        Busy: another process has been making it for too long.
        NotFound: nothing is released yet.
        KnowledgeError: as the stages do; SourceRefused where more differs than a question waits for.
    """
    if not base.is_local:
        raise SourceRefused("a store in a bucket has no overlays: index the working tree to ask about it")
    if (live := find_live_release(base)) is None:
        raise NotFound("nothing is released yet: run `knowledge index`")
    for unused in list_unused_overlays(base):
        discard_overlay(base, unused)
    if not (tree.root / ".git").exists():
        raise SourceRefused(f"there is no working tree {tree.root} any more")
    folder = base.overlays / name_checkout(tree.root)
    indexed = (source for source in tree.sources if base.snapshot(source.type, source.id).exists)
    tree = replace(tree, sources=tuple(indexed))
    compared_at = time.time()
    listed = {source.id: _list_source(base, source) for source in tree.sources}
    hashes = {source: hash_listing(listing) for source, listing in listed.items()}

    def note_equal() -> Overlay:
        discard_overlay(base, folder)
        keep_equal_tree(base, live, tree.root, {"listed": hashes, "compared_at": compared_at})
        return Overlay(base)

    comparison = recall_equal_trees(base, live).get(str(tree.root), {})
    if comparison.get("listed") == hashes or not _find_changed(base, tree, listed):
        return note_equal()
    with acquire_lock(
        base.root / "locks", _name_lock(folder), timeout_s=LOCK_TIMEOUT_S, description=f"the tree {tree.root}"
    ):
        lake = Lake(folder / name_release(base, live))
        if not lake.root.is_dir():
            _link(base, live, lake, tree)
        (folder / _TREE).touch()
        complete = lake.folder / _COMPLETE
        changed: Sequence[SourceConfig] = tree.sources
        if complete.exists():
            changed = _find_changed(lake, tree, listed)
        if not changed:
            return Overlay(lake)
        complete.unlink(missing_ok=True)
        done = list[Stats]()
        for source in changed:
            ctx = RefreshContext(
                lake,
                tree.settings,
                source,
                RefreshOptions(allow_empty=True),
                report,
                listing=replace(listed[source.id], version_stamps=lake.version_stamps(source.id)),
                upkeep=PostponedUpkeep(),
                max_documents=MAX_DOCUMENTS if is_bounded else None,
            )
            with lake.lock_source(source.id):
                done += _run_stages(ctx, is_bounded=is_bounded)
        with lake.lock_index():
            publish_release(lake, keep=1, pinned_since=live.pinned_since)
        complete.touch()
    if all(_load_contents(base, source) == _load_contents(lake, source) for source in tree.sources):
        return note_equal()
    return Overlay(lake, tuple(done))


def _list_source(base: Lake, source: SourceConfig) -> Listing:
    """By what is kept beside the store of earlier listings; nothing where the tree has no such folder."""
    assert isinstance(source.connection, LocalConnection)
    if not source.connection.path.expanduser().is_dir():
        return Listing({}, {})
    with open_listed_source(base, source) as opened:
        items = {item.uri: item for item in opened.discover()}
        return Listing(items, {}, notes=list_notes(opened))


def _find_changed(lake: Lake, tree: SourceTree, listed: Mapping[str, Listing]) -> list[SourceConfig]:
    """The sources that the tree has otherwise than a store."""
    return [it for it in tree.sources if not is_up_to_date(lake, it, listed[it.id].items.values())]


def _load_contents(lake: Lake, source: SourceConfig) -> dict[str, str]:
    """What the live documents hold, by uri, whatever revision they were read at."""
    rows = lake.snapshot(source.type, source.id).read_rows(["uri", "content_hash"], is_null("archived_at"))
    return dict(zip(*rows.to_pydict().values(), strict=True))


def _name_lock(folder: Path) -> str:
    return f"overlay-{folder.name}"


def _link(base: Lake, live: Release, lake: Lake, tree: SourceTree) -> None:
    """Make the overlay of a release; that of the last one stays for who reads it, and no earlier one."""
    folder = lake.folder.parent
    folder.mkdir(parents=True, exist_ok=True)
    (folder / _TREE).write_text(str(tree.root), "utf-8", "surrogateescape")
    folders = sorted((it for it in folder.iterdir() if it.is_dir()), key=lambda it: it.stat().st_mtime)
    settings = json.dumps(tree.settings.model_dump(warnings=False), default=str)
    made_by = hash_strings(identify_program(), settings)
    former = next((it for it in reversed(folders) if _read_text(it / _MADE_BY) == made_by), None)
    link_release(base, live, lake.folder, {source.id for source in tree.sources}, former)
    (lake.folder / _MADE_BY).write_text(made_by)
    for path in folders:
        if path != former:
            shutil.rmtree(path, ignore_errors=True)


def _read_text(file: Path) -> str:
    return file.read_text("utf-8", "surrogateescape") if file.is_file() else ""


def _run_stages(ctx: RefreshContext, *, is_bounded: bool) -> Iterator[Stats]:
    from knowledge_pipeline.stages.embeddings import find_missing_texts
    from knowledge_pipeline.stages.pipeline import select_stages  # chunkers and models, for what differs

    embedding = ctx.settings.resolve_embedding(ctx.source)
    is_local = embedding.provider == "local" and embedding.ray is None
    for name, run in select_stages(ctx.source.type).items():
        if name == "embeddings" and is_bounded:
            missing = find_missing_texts(ctx, resolve_space(embedding))
            if len(missing) > (MAX_TEXTS if is_local else 0):
                continue
        try:
            yield run(ctx)
        except KnowledgeError:
            if name != "embeddings":  # words find what no model can embed now
                raise


def list_unused_overlays(base: Lake, *, max_age_s: float | None = None) -> list[Path]:
    """The folders of overlays whose tree is gone, or that nobody has asked from for so long."""
    unused = list[Path]()
    for note in base.overlays.glob(f"*/{_TREE}"):
        with suppress(OSError):
            root = Path(_read_text(note))
            is_old = max_age_s is not None and note.stat().st_mtime < time.time() - max_age_s
            if is_old or not (root / ".git").exists():
                unused.append(note.parent)
    return unused


def discard_overlay(base: Lake, folder: Path) -> None:
    """Remove an overlay, if it is there, and what is known of its repository if the tree is gone."""
    if folder.is_dir():
        repository = Path(_read_text(folder / _TREE)) / ".git"
        if not repository.exists():
            shutil.rmtree(base.cache / CHECKOUTS / name_checkout(repository), ignore_errors=True)
        shutil.rmtree(folder, ignore_errors=True)
        (base.folder / "locks" / f"{_name_lock(folder)}.lock").unlink(missing_ok=True)

"""The working tree that a command asks from: see `stages.overlay`."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from knowledge_pipeline.cli.screen import Screen, format_count
from knowledge_pipeline.config.connections import LocalConnection
from knowledge_pipeline.config.file import find_config, load_settings
from knowledge_pipeline.errors import ConfigError, KnowledgeError, NotFound
from knowledge_pipeline.extras import find_extra
from knowledge_pipeline.freshness import FreshnessReader, SourceRecord
from knowledge_pipeline.store.lake import Lake

if TYPE_CHECKING:
    from knowledge_pipeline.config.settings import Settings
    from knowledge_pipeline.stages.overlay import SourceTree

_PASSED_OVER = frozenset({".git", "node_modules", "__pycache__"})
_CLOCK_S = 0.1  # the times of files may be that late

_log = logging.getLogger(__name__)


def find_config_of_tree(start: Path) -> Path:
    """As `find_config`; in a further working tree that has no store of its own, that of the first one.

    A committed `knowledge.yaml` is in each working tree, and names a store beside it.
    """
    first = None if os.environ.get("KNOWLEDGE_CONFIG") else _find_in_first_tree(start)
    try:
        found = find_config(start)
    except ConfigError:
        if first is None:
            raise
        return first
    with suppress(ConfigError):
        store = load_settings(found).store if first else None
        return first if first and isinstance(store, Path) and not store.exists() else found
    return found


def _find_in_first_tree(start: Path) -> Path | None:
    """The file that the same folder of the first working tree has, or the nearest around it."""
    root = next((it for it in (start, *start.parents) if (it / ".git").exists()), None)
    if root is None or not (root / ".git").is_file():
        return None
    from knowledge_pipeline.connectors.git.command import find_common_folder

    with suppress(OSError, ConfigError):
        common = find_common_folder(root)
        if common.name == ".git":
            return find_config(common.parent / start.relative_to(root))
    return None


def _is_as_released(lake: Lake, settings: Settings) -> bool:
    """Whether nothing around the current folder was touched since the release read its sources, or since
    both were found equal.

    A look at the times of files takes a tenth of what listing the sources does. Where it is not sure, it is
    not so, and `refresh_overlay` compares.
    """
    folder = Path.cwd()
    root = next((it for it in (folder, *folder.parents) if (it / ".git").is_dir()), None)
    if root is None or (root / ".gitmodules").exists() or any(lake.overlays.glob("*")):
        return False
    from knowledge_pipeline.store.release import find_live_release, recall_equal_trees  # and Arrow

    with suppress(OSError, KnowledgeError):
        if live := find_live_release(lake):
            reader = FreshnessReader(lake)
            reader.read()
            local = (it for it in settings.sources if isinstance(it.connection, LocalConnection))
            states = [reader.records.get(it.id, SourceRecord()).find_live(live.tables) for it in local]
            read_at = min((it.indexed.read_at if it else 0.0 for it in states), default=0.0)
            comparison = recall_equal_trees(lake, live).get(str(root.resolve()), {})
            before = max(read_at, comparison.get("compared_at", 0.0)) - _CLOCK_S
            return all(time < before for time in _list_change_times(root, lake.folder))
    return False


def _list_change_times(root: Path, store: Path) -> Iterator[float]:
    """When each file and folder below a root was changed, and what is checked out; by Unix times."""
    heads = (root / ".git" / name for name in ("HEAD", "logs/HEAD", "packed-refs"))
    yield from (path.lstat().st_ctime for path in (root, *heads) if path.exists())
    folders = [str(root)]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                is_folder = entry.is_dir(follow_symlinks=False)
                if is_folder and (entry.name in _PASSED_OVER or entry.path == str(store)):
                    continue
                if is_folder and Path(entry.path, "pyvenv.cfg").exists():
                    continue
                yield entry.stat(follow_symlinks=False).st_ctime
                if is_folder:
                    folders.append(entry.path)


def find_tree(settings: Settings) -> SourceTree | None:
    """The working tree around the current folder, if it has files of sources of a store in a folder.

    None, too, where the packages that read folders are not installed.
    """
    folder = Path.cwd()
    is_local = any(isinstance(source.connection, LocalConnection) for source in settings.sources)
    if not is_local or not isinstance(settings.store, Path) or settings.federation.stores:
        return None
    if not any((it / ".git").exists() for it in (folder, *folder.parents)):
        return None
    try:
        from knowledge_pipeline.stages.overlay import find_source_tree  # and all that reads folders
    except ModuleNotFoundError as error:
        if find_extra(error.name or "") is None:
            raise
        return None  # what answers from a store is installed alone
    return find_source_tree(settings, folder)


def open_overlay(settings: Settings, screen: Screen) -> tuple[Settings, Lake | None]:
    """What answers a question from the current folder, brought up to date; None: the store of the settings.

    Where the tree cannot be read, or differs too much, the last release answers, and a note says so.
    """
    if isinstance(settings.store, Path) and _is_as_released(Lake(settings.store), settings):
        return settings, None
    if (tree := find_tree(settings)) is None:
        return settings, None
    from knowledge_pipeline.cli.progress import show_progress
    from knowledge_pipeline.stages.overlay import refresh_overlay

    try:
        with show_progress(screen) as report_for:
            overlay = refresh_overlay(Lake(settings.store), tree, report=report_for(tree.root.name))
    except NotFound:
        return settings, None  # which the question itself says
    except (KnowledgeError, OSError, ValueError) as error:
        screen.print_note(f"note: the last release answers, not {tree.root} as it is: {error}")
        return settings, None
    if overlay.documents:
        count = format_count(overlay.documents, "document")
        screen.print_note(f"note: read {count} of {tree.root} that the last release has otherwise")
    return tree.settings, overlay.lake


def follow_tree(settings: Settings) -> tuple[Settings, Callable[[], Lake] | None]:
    """The same for a process that goes on answering: what brings it up to date, before questions."""
    if (tree := find_tree(settings)) is None:
        return settings, None
    from knowledge_pipeline.stages.overlay import refresh_overlay

    base = Lake(settings.store)

    def choose_lake() -> Lake:
        if tree.is_first and _is_as_released(base, settings):
            return base
        try:
            return refresh_overlay(base, tree).lake
        except NotFound:
            pass
        except (KnowledgeError, OSError, ValueError) as error:
            _log.warning("the last release answers, not %s as it is: %s", tree.root, error)
        return base

    return tree.settings, choose_lake

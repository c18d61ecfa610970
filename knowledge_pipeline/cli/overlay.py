"""The working tree that a command asks from: see `stages.overlay`."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from knowledge_pipeline.cli.screen import Screen, format_count
from knowledge_pipeline.config.connections import LocalConnection
from knowledge_pipeline.config.file import find_config, load_settings
from knowledge_pipeline.errors import ConfigError, KnowledgeError, NotFound
from knowledge_pipeline.store.lake import Lake

if TYPE_CHECKING:
    from knowledge_pipeline.config.settings import Settings
    from knowledge_pipeline.stages.overlay import SourceTree

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


def find_tree(settings: Settings) -> SourceTree | None:
    """The working tree around the current folder, if it has files of sources of a store in a folder."""
    folder = Path.cwd()
    is_local = any(isinstance(source.connection, LocalConnection) for source in settings.sources)
    if not is_local or not isinstance(settings.store, Path) or settings.federation.stores:
        return None
    if not any((it / ".git").exists() for it in (folder, *folder.parents)):
        return None
    from knowledge_pipeline.stages.overlay import find_source_tree  # and all that reads folders

    return find_source_tree(settings, folder)


def open_overlay(settings: Settings, screen: Screen) -> tuple[Settings, Lake | None]:
    """What answers a question from the current folder, brought up to date; None: the store of the settings.

    Where the tree cannot be read, or differs too much, the last release answers, and a note says so.
    """
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
        try:
            return refresh_overlay(base, tree).lake
        except NotFound:
            pass
        except (KnowledgeError, OSError, ValueError) as error:
            _log.warning("the last release answers, not %s as it is: %s", tree.root, error)
        return base

    return tree.settings, choose_lake

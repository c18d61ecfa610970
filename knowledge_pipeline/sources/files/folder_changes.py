"""Which changes of a folder can concern a source, by their paths alone.

Cheap and generous: nothing is read but `.gitignore` files, and what is let through
only asks for a refresh, which knows what really changed.
"""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

from knowledge_pipeline.config.connections.local import LocalConnection
from knowledge_pipeline.config.sources.source import SourceConfig
from knowledge_pipeline.errors import SourceRefused
from knowledge_pipeline.sources.files.gitignore import IgnoreRules, load_folder_rules, load_root_rules
from knowledge_pipeline.sources.git.command import GitError, git_folder_of, run_git
from knowledge_pipeline.sources.patterns import FileSelection, build_selection

_REF_ENTRIES = frozenset({"HEAD", "packed-refs", "refs", "reftable", "worktrees"})


def find_watched_folder(source: SourceConfig) -> Path | None:
    """The folder whose changes concern a source; None if it is not read on this machine.

    For a history that is the repository's own folder, wherever the checkout lies.
    """
    if not isinstance(source.connection, LocalConnection):
        return None
    folder = source.connection.path.expanduser().absolute()
    return _find_git_folder(folder) if source.type == "git_history" else folder


def is_affected_by(
    source: SourceConfig,
    folder: Path,
    changed: Iterable[str],
    *,
    store: Path,
    was_document: Callable[[str], bool],
) -> bool:
    """Whether any of the changed paths may change what a source lists.

    Args:
        source: one with a `watched_folder`.
        folder: that folder.
        changed: absolute paths of files and folders in it that came, changed or went.
        store: a folder that never concerns it: our own tables may lie inside.
        was_document: whether a path within the folder is, or contained, a document at the last refresh;
            asked of what is gone.

    Raises:
        SourceRefused: a `.gitignore` file cannot be read.
        ConfigError: a pattern of the source is wrong.
    """
    outside = (Path(path) for path in changed)
    paths = [path for path in outside if not path.is_relative_to(store)]
    if source.type == "git_history":
        return any(_is_ref_change(path.relative_to(folder)) for path in paths)
    of_folder = _FolderView(folder, build_selection(source), was_document)
    return any(path == source.metadata.coverage or of_folder.is_affected_by(path) for path in paths)


class _FolderView:
    """One folder as one source sees it; the rules are read once."""

    def __init__(self, root: Path, selection: FileSelection, was_document: Callable[[str], bool]) -> None:
        self._root, self._selection, self._was_document = root, selection, was_document
        self._cached_rules = cache(self._load_rules)
        self._is_excluded = cache(self._compute_is_excluded)

    def is_affected_by(self, location: Path) -> bool:
        path = location.relative_to(self._root).as_posix()
        if path == ".":  # the folder itself came or went
            return True
        folder, _, name = path.rpartition("/")
        if self._is_excluded(folder):
            return False
        try:
            mode = location.lstat().st_mode
        except OSError:
            return name == ".gitignore" or self._was_document(path)
        if stat.S_ISDIR(mode):
            return not self._is_excluded(path)
        accepted = self._selection.accepts(path, executable=bool(mode & 0o111))
        return name == ".gitignore" or (accepted and not self._is_ignored(path, folder))

    def _compute_is_excluded(self, folder: str) -> bool:
        """Whether nothing in a folder is taken: a pattern or a rule leaves it out, or one around it."""
        if not folder:
            return False
        above = folder.rpartition("/")[0]
        ignored = self._selection.is_pruned(folder) or self._is_excluded(above)
        return ignored or self._is_ignored(f"{folder}/", above)

    def _is_ignored(self, path: str, folder: str) -> bool:
        rules = self._cached_rules(folder)
        return rules is not None and rules.ignores(path)

    def _load_rules(self, folder: str) -> IgnoreRules | None:
        if not folder:
            return load_root_rules(self._root.resolve())
        return load_folder_rules(self._root / folder, folder, self._cached_rules(folder.rpartition("/")[0]))


def _find_git_folder(checkout: Path) -> Path:
    """Where the branches of a checkout are kept; the checkout itself where there is no repository yet."""
    arguments = ["rev-parse", "--path-format=absolute", "--git-common-dir"]
    try:
        found = run_git(arguments, repository=git_folder_of(checkout))
    except (GitError, SourceRefused, OSError):
        return checkout
    return Path(found.decode("utf-8", "surrogateescape").strip())


def _is_ref_change(path: Path) -> bool:
    parts = path.parts[path.parts.index(".git") + 1 :] if ".git" in path.parts else path.parts
    return not parts or (parts[0] in _REF_ENTRIES and not path.name.endswith(".lock"))

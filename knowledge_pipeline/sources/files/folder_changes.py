"""Which changes of a folder can concern a source, told from paths alone.

Cheap and generous: nothing is read but `.gitignore` files, and what is let through
only asks for a refresh, which knows what really changed.
"""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

from knowledge_pipeline.config.settings import LocalConnection, SourceConfig
from knowledge_pipeline.errors import SourceRefused
from knowledge_pipeline.sources.files.gitignore import Rules, rules_at, rules_below
from knowledge_pipeline.sources.git.command import GitFailed, run
from knowledge_pipeline.sources.patterns import Selection, selection

_MOVED_BY_COMMITS = frozenset({"HEAD", "packed-refs", "refs", "reftable", "worktrees"})


def watched_folder(source: SourceConfig) -> Path | None:
    """The folder whose changes concern a source; None if it is not read on this machine.

    For a history that is the repository's own folder, wherever the checkout lies.
    """
    if not isinstance(source.connection, LocalConnection):
        return None
    folder = source.connection.path.expanduser().absolute()
    return _git_folder(folder) if source.type == "git_history" else folder


def concerned(
    source: SourceConfig, folder: Path, changed: Iterable[str], *, store: Path, held: Callable[[str], bool]
) -> bool:
    """Whether any of the changed paths may change what a source lists.

    Args:
        source: one with a `watched_folder`.
        folder: that folder.
        changed: absolute paths of files and folders in it that came, changed or went.
        store: a folder that never concerns it: our own tables may lie inside.
        held: whether a path within the folder is, or contained, a document at the last refresh;
            asked of what is gone.

    Raises:
        SourceRefused: a `.gitignore` file cannot be read.
        ConfigError: a pattern of the source is wrong.
    """
    outside = (Path(path) for path in changed)
    paths = [path for path in outside if not path.is_relative_to(store)]
    if source.type == "git_history":
        return any(_moves_history(path.relative_to(folder)) for path in paths)
    of_folder = _Folder(folder, selection(source), held)
    return any(path == source.metadata.coverage or of_folder.concerns(path) for path in paths)


class _Folder:
    """One folder as one source sees it; the rules are read once."""

    def __init__(self, root: Path, chosen: Selection, held: Callable[[str], bool]) -> None:
        self._root, self._selection, self._held = root, chosen, held
        self._rules = cache(self._rules_in)
        self._left_out = cache(self._is_left_out)

    def concerns(self, location: Path) -> bool:
        path = location.relative_to(self._root).as_posix()
        if path == ".":  # the folder itself came or went
            return True
        folder, _, name = path.rpartition("/")
        if self._left_out(folder):
            return False
        try:
            mode = location.lstat().st_mode
        except OSError:
            return name == ".gitignore" or self._held(path)
        if stat.S_ISDIR(mode):
            return not self._left_out(path)
        executable = bool(mode & 0o111)
        return name == ".gitignore" or (
            self._selection.wants(path, executable=executable) and not self._is_ignored(path, folder)
        )

    def _is_left_out(self, folder: str) -> bool:
        """Whether nothing in a folder is taken: a pattern or a rule leaves it out, or one around it."""
        if not folder:
            return False
        above = folder.rpartition("/")[0]
        ignored = self._selection.prunes(folder) or self._left_out(above)
        return ignored or self._is_ignored(f"{folder}/", above)

    def _is_ignored(self, path: str, folder: str) -> bool:
        rules = self._rules(folder)
        return rules is not None and rules.ignores(path)

    def _rules_in(self, folder: str) -> Rules | None:
        if not folder:
            return rules_at(self._root.resolve())
        return rules_below(self._root / folder, folder, self._rules(folder.rpartition("/")[0]))


def _git_folder(checkout: Path) -> Path:
    """Where the branches of a checkout are kept; the checkout itself where there is no repository yet."""
    inside = checkout / ".git"
    try:
        found = run(
            ["rev-parse", "--path-format=absolute", "--git-common-dir"],
            repository=inside if inside.exists() else checkout,
        )
    except (GitFailed, SourceRefused, OSError):
        return checkout
    return Path(found.decode("utf-8", "surrogateescape").strip())


def _moves_history(path: Path) -> bool:
    parts = path.parts[path.parts.index(".git") + 1 :] if ".git" in path.parts else path.parts
    return not parts or (parts[0] in _MOVED_BY_COMMITS and not path.name.endswith(".lock"))

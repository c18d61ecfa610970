"""`.gitignore` files of a folder, at every level, as git applies them.

A rule in a deeper folder wins over one above; nothing below an ignored folder can be
brought back. Unlike git, a file that is tracked although a rule names it is left out:
the index of git is not read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pathspec import GitIgnoreSpec

from knowledge_pipeline.errors import SourceRefused


@dataclass(frozen=True, slots=True)
class IgnoreRules:
    """The rules that hold in one folder of a walk: its own before those from above it."""

    spec: GitIgnoreSpec
    folder_prefix: str = ""  # the rules' folder, seen from the walk's root: "src/"
    root_prefix: str = ""  # the walk's root, seen from a rules' folder above it: "packages/one/"
    parent: IgnoreRules | None = None

    def ignores(self, path: str) -> bool:
        """Whether a file, or a folder (with a slash at its end), is ignored."""
        rules: IgnoreRules | None = self
        while rules is not None:
            seen = rules.root_prefix + path.removeprefix(rules.folder_prefix)
            if (verdict := rules.spec.check_file(seen).include) is not None:
                return verdict
            rules = rules.parent
        return False


def load_root_rules(root: Path) -> IgnoreRules | None:
    """The rules that hold in the folder where a walk begins.

    Those of the repository around it hold too, unless they ignore the folder itself: it
    was asked for by name.
    """
    outer: IgnoreRules | None = None
    for folder in _list_folders_from_repository(root):
        above = f"{root.relative_to(folder).as_posix()}/"
        outer = _add_rules_of(folder, outer, root_prefix=above)
        if outer is not None and outer.ignores(""):
            outer = None
            break
    return _add_rules_of(root, outer)


def load_folder_rules(folder: Path, path: str, outer: IgnoreRules | None) -> IgnoreRules | None:
    """The rules that hold in a folder of the walk, given those of the folder above."""
    spec = _load_spec(folder / ".gitignore")
    return outer if spec is None else IgnoreRules(spec, folder_prefix=f"{path}/", parent=outer)


def _add_rules_of(folder: Path, outer: IgnoreRules | None, *, root_prefix: str = "") -> IgnoreRules | None:
    for name in (".git/info/exclude", ".gitignore"):
        if (spec := _load_spec(folder / name)) is not None:
            outer = IgnoreRules(spec, root_prefix=root_prefix, parent=outer)
    return outer


def _list_folders_from_repository(root: Path) -> list[Path]:
    """The folders above `root` that lie in the same repository, outermost first; itself not."""
    folders = [root, *root.parents]
    repository = next((at for at, folder in enumerate(folders) if (folder / ".git").exists()), 0)
    return folders[repository:0:-1]


def _load_spec(file: Path) -> GitIgnoreSpec | None:
    """The rules of one file; None if there is none, or a symbolic link, which git passes over too."""
    try:
        if file.is_symlink() or not file.is_file():
            return None
        text = file.read_bytes().decode("utf-8-sig", "surrogateescape")
    except OSError as error:
        raise SourceRefused(
            f"{file} cannot be read ({error.strerror}), so what it ignores is not known: make it readable"
        ) from error
    return GitIgnoreSpec.from_lines(_iter_valid_lines(text))


def _iter_valid_lines(text: str) -> Iterator[str]:
    """The lines that are patterns; git passes over the others without a word."""
    for line in text.split("\n"):
        try:
            GitIgnoreSpec.from_lines([line.removesuffix("\r")])
        except ValueError:
            continue
        yield line.removesuffix("\r")

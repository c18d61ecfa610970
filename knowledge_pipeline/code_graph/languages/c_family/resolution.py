"""How names of C and C++ lead to definitions: what is included, what is linked, namespaces."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from knowledge_pipeline.code_graph.facts import FileFacts
from knowledge_pipeline.code_graph.languages.base import Language
from knowledge_pipeline.code_graph.languages.c_family.facts import BUILTINS
from knowledge_pipeline.code_graph.languages.words import map_words, split_words
from knowledge_pipeline.code_graph.project_layout import Layout, climb_path, count_shared_folders

SUFFIXES = (".c", ".h", ".cc", ".cpp", ".cxx", ".hpp", ".hh", ".hxx", ".inl", ".ipp", ".c++", ".h++", ".inc")
_STANDARD_HEADERS = split_words(
    """
    assert.h complex.h ctype.h errno.h fenv.h float.h inttypes.h limits.h locale.h math.h setjmp.h signal.h
    stdalign.h stdarg.h stdatomic.h stdbool.h stddef.h stdint.h stdio.h stdlib.h string.h time.h wchar.h
    """
)
_MEMBERS_PREFIX = "members of "


class CFamily(Language):
    """C and C++; see https://en.cppreference.com/w/cpp/language/lookup."""

    name = "cpp"
    builtins = BUILTINS
    members_in_scope = True
    receiver_in_scope = True
    private_to_file = True
    has_includes = True
    has_dotted_modules = True
    has_scattered_members = True
    constructors_named_after_type = True
    container_methods: Mapping[str, str] = map_words(
        {"[]": "at front back begin end find top value get lock cbegin cend data rbegin rend"}
    )
    common_methods = split_words(
        """
        size empty begin end push_back emplace_back insert erase find at clear get reset front back c_str str
        data resize reserve append substr count swap first second value push pop top lock unlock join load
        store length close open read write run start stop name what release emplace
        """
    )

    def is_star_exported(self, name: str) -> bool:
        """All that a header has is brought."""
        return True

    def member_home(self, facts: FileFacts) -> str:
        """All files: a class's methods lie anywhere."""
        return f"{_MEMBERS_PREFIX}{facts.path}"

    def find_modules(self, name: str, path: str, layout: Layout) -> tuple[str, ...]:
        """The file that is included; a namespace."""
        if "/" in name or name.endswith(SUFFIXES):
            return _find_included_file(name, path, layout)
        if name.startswith("."):
            name = path.rstrip("/") + name
        return (f"{name}/",) if layout.project.files_defining(f"within {name}") else ()

    def submodule_name(self, name: str) -> str:
        """A namespace within a namespace."""
        return f".{name}"

    def find_siblings(self, name: str, path: str, layout: Layout) -> tuple[str, ...]:
        """Files that define what is linked; those nearest to the file, where several do."""
        found = [each for each in layout.project.files_defining(name) if each.endswith(SUFFIXES)]
        if path.startswith(_MEMBERS_PREFIX):
            return tuple(sorted(found))
        if path.endswith("/"):
            return tuple(
                sorted(set(found).intersection(layout.project.files_defining(f"package {path[:-1]}")))
            )
        return _find_nearest(found, path)

    def external_name(self, module: str, name: str, path: str, layout: Layout) -> str:
        """The header as it is written."""
        return module

    def extend_external_name(self, external: str, step: str) -> str:
        """A header gives no names of its own; `std` does."""
        return "" if "/" in external or external.endswith(SUFFIXES) else external + step

    def is_standard_library(self, external: str) -> bool:
        """Whether it is of the standard library."""
        return external in _STANDARD_HEADERS or external.startswith("std.")

    def full_name(self, path: str, name: str, layout: Layout) -> str:
        """`geo::Circle::area`; of C, the name alone, as it is linked."""
        parts = [*layout.facts(path).module.split("."), *name.split(".")]
        return "::".join(part for part in parts if part) if name else path


def _find_included_file(name: str, path: str, layout: Layout) -> tuple[str, ...]:
    """A file relative to the one that includes it, or the nearest whose path ends as it is written."""
    near, end = climb_path(path, name)
    if near in layout.paths:
        return (near,)
    if name in _STANDARD_HEADERS or not end:
        return ()
    known = [each for each in layout.files_named(end.rpartition("/")[2]) if each.endswith(SUFFIXES)]
    return _find_nearest((each for each in known if each == end or each.endswith(f"/{end}")), path)[:1]


def _find_nearest(candidates: Iterable[str], path: str) -> tuple[str, ...]:
    """Those that share the most folders with a file."""
    shared = {each: count_shared_folders(each, path) for each in candidates if each != path}
    most = max(shared.values(), default=0)
    return tuple(sorted(each for each, count in shared.items() if count == most))

"""How Ruby's names lead to definitions: constants by nesting, in whichever file they are."""

from __future__ import annotations

from collections.abc import Mapping

from knowledge_pipeline.code_graph.languages.base import Language
from knowledge_pipeline.code_graph.languages.ruby.facts import BUILTINS
from knowledge_pipeline.code_graph.languages.words import map_words, split_words
from knowledge_pipeline.code_graph.project_layout import Layout, join_path


class Ruby(Language):
    """Ruby; see https://docs.ruby-lang.org/en/master/syntax/modules_and_classes_rdoc.html."""

    name = "ruby"
    receiver_keywords: Mapping[str, str] = {"self": "@self", "super": "@super"}
    builtins = BUILTINS
    members_in_scope = True
    has_scattered_members = True
    container_methods: Mapping[str, str] = map_words(
        {
            "[]": "first last pop shift find detect fetch sample min_by max_by",
            "": "select reject sort_by sort reverse values to_a compact uniq dup freeze",
        }
    )
    common_methods = split_words(
        """
        new each map select reject find first last push pop shift size length count empty? nil? to_s to_a to_h
        to_i to_sym inspect join split strip gsub sub merge key? keys values fetch dig include? any? all? call
        name id save update create delete destroy where find_by order limit present? blank? is_a? respond_to?
        send freeze dup clone sort sort_by uniq flatten compact reverse index sum min max zip class hash ==
        """
    )

    def find_modules(self, name: str, path: str, layout: Layout) -> tuple[str, ...]:
        """The file beside another one, or on a path where libraries are looked for."""
        file = name if name.endswith(".rb") else f"{name}.rb"
        if name.startswith("."):
            found = join_path(path.rpartition("/")[0], file)
            return (found,) if found in layout.paths else ()
        places = layout.get_or_build(_list_load_paths)
        return tuple(f"{each}{file}" for each in places if f"{each}{file}" in layout.paths)[:1]

    def find_siblings(self, name: str, path: str, layout: Layout) -> tuple[str, ...]:
        """Files that define a constant, or a method of one that others open, too."""
        return tuple(
            sorted(each for each in layout.project.files_defining(name) if each.endswith((".rb", ".rake")))
        )

    def external_name(self, module: str, name: str, path: str, layout: Layout) -> str:
        """The library as it is required; nothing for a file that is not there."""
        return "" if module.startswith(".") else module

    def full_name(self, path: str, name: str, layout: Layout) -> str:
        """`Shop::Store#get`."""
        *around, last = name.split(".")
        if not name or not around:
            return name or path
        return f"{'::'.join(around)}{'::' if last[:1].isupper() else '#'}{last}"


def _list_load_paths(layout: Layout) -> tuple[str, ...]:
    """Where libraries lie: the source, and its folders `lib` and `app`'s."""
    found = {""}
    for path in layout.paths:
        if path.endswith(".rb") and "lib/" in path:
            found.add(f"{path.partition('lib/')[0]}lib/")
    return tuple(sorted(found))

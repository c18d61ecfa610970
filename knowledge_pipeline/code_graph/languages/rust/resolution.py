"""How Rust's names lead to definitions: crates, modules in files, members in any `impl`."""

from __future__ import annotations

from collections.abc import Mapping

from knowledge_pipeline.code_graph.access_paths import first_segment
from knowledge_pipeline.code_graph.facts import FileFacts
from knowledge_pipeline.code_graph.languages.base import Language
from knowledge_pipeline.code_graph.languages.rust.crates import (
    find_crate_folder,
    find_module_files,
    module_path_of,
)
from knowledge_pipeline.code_graph.languages.rust.facts import BUILTINS
from knowledge_pipeline.code_graph.languages.words import map_words, split_words
from knowledge_pipeline.code_graph.project_layout import Layout

_CONTAINER_METHODS: Mapping[str, str] = map_words(
    {
        "[]": "unwrap expect unwrap_or unwrap_or_default unwrap_or_else borrow borrow_mut",
        "": """
            get get_mut first last first_mut last_mut pop pop_front pop_back next next_back peek find nth
            remove insert take replace iter iter_mut into_iter values values_mut clone cloned copied collect
            rev skip filter chain as_ref as_mut as_deref as_deref_mut ok ok_or ok_or_else map_err lock read
            write drain to_vec into_inner or or_else min_by_key max_by_key by_ref peekable
            """,
    }
)


class Rust(Language):
    """Rust, as its reference says, chapter 12: https://doc.rust-lang.org/reference/names.html."""

    name = "rust"
    builtins = BUILTINS
    has_dotted_modules = True
    has_scattered_members = True
    has_duplicate_type_names = True
    members_in_body = False
    element_accessors = ("next()[]",)
    container_methods = _CONTAINER_METHODS
    common_methods = split_words(
        """
        new clone into from as_ref as_mut to_string to_owned unwrap expect iter iter_mut into_iter next map
        filter collect len is_empty push pop insert remove get get_mut contains contains_key extend clear
        eq cmp partial_cmp hash fmt default drop deref deref_mut index add sub mul div neg not write read
        flush lock join send recv clone_from and_then or_else ok err unwrap_or unwrap_or_else
        unwrap_or_default take replace borrow borrow_mut as_str as_bytes as_slice split trim parse min max
        sum count any all find position fold zip enumerate rev skip chain first last sort sort_by source
        is_some is_none is_ok is_err ok_or ok_or_else map_err copied cloned drain retain entry or_insert
        starts_with ends_with to_vec append truncate wrapping_add saturating_sub pow abs spawn run close
        """
    )

    def member_home(self, facts: FileFacts) -> str:
        """The crate of the file."""
        return f"crate of {facts.path}"

    def find_modules(self, name: str, path: str, layout: Layout) -> tuple[str, ...]:
        """The file of `crate.a.b`, `self.b`, `super.b`, another crate's, or one below the file."""
        return find_module_files(name, path, layout)

    def submodule_name(self, name: str) -> str:
        """A module in a file of its own."""
        return f"self.{name}"

    def find_siblings(self, name: str, path: str, layout: Layout) -> tuple[str, ...]:
        """Files of the crate that define a member; a macro is seen in all files, without import."""
        if not path.startswith("crate of "):
            is_macro = name[:1].islower() and name not in BUILTINS
            found = layout.project.files_defining(name) if is_macro else ()
            home = find_crate_folder(path, layout)
        else:
            found = layout.project.files_defining(name)
            home = find_crate_folder(path.removeprefix("crate of "), layout)
        return tuple(
            sorted(each for each in found if each.endswith(".rs") and find_crate_folder(each, layout) == home)
        )

    def external_name(self, module: str, name: str, path: str, layout: Layout) -> str:
        """`std::fmt::Display`; nothing for what the crate itself should have."""
        if module.partition(".")[0] in ("self", "super", "crate"):
            return ""
        parts = module.split(".")
        return "::".join([*parts, name] if name not in ("", "*") else parts)

    def extend_external_name(self, external: str, step: str) -> str:
        """`serde_json::Value` called is one; its members follow `::`."""
        if step[0] == "." and first_segment(external) in BUILTINS:
            return external + step
        if step[0] == ".":
            return f"{external}::{step[1:]}" if not external.endswith(")") else ""
        is_type = external.rpartition("::")[2][:1].isupper()
        return external if is_type and step == "()" else external + step

    def is_standard_library(self, external: str) -> bool:
        """Whether it is of `std`, `core` or `alloc`."""
        return external.partition("::")[0] in ("std", "core", "alloc")

    def full_name(self, path: str, name: str, layout: Layout) -> str:
        """`shop::store::Store::get`."""
        crate, module = module_path_of(path, layout)
        return "::".join(part for part in (crate, *module, *name.split(".")) if part) or path

"""How Rust's names lead to definitions: crates, modules in files, members in any `impl`."""

from __future__ import annotations

from collections.abc import Mapping

from knowledge_pipeline.code_graph.access_paths import head_of
from knowledge_pipeline.code_graph.facts import Facts
from knowledge_pipeline.code_graph.languages.base import Language
from knowledge_pipeline.code_graph.languages.rust.crates import crate_of, module_of, modules_of
from knowledge_pipeline.code_graph.languages.rust.facts import BUILTINS
from knowledge_pipeline.code_graph.languages.words import words
from knowledge_pipeline.code_graph.project_layout import Layout

_HOLDERS: Mapping[str, str] = {
    **dict.fromkeys(
        words("unwrap expect unwrap_or unwrap_or_default unwrap_or_else borrow borrow_mut"), "[]"
    ),
    **dict.fromkeys(
        words(
            """
            get get_mut first last first_mut last_mut pop pop_front pop_back next next_back peek find nth
            remove insert take replace iter iter_mut into_iter values values_mut clone cloned copied collect
            rev skip filter chain as_ref as_mut as_deref as_deref_mut ok ok_or ok_or_else map_err lock read
            write drain to_vec into_inner or or_else min_by_key max_by_key by_ref peekable
            """
        ),
        "",
    ),
}


class Rust(Language):
    """Rust, as its reference says, chapter 12: https://doc.rust-lang.org/reference/names.html."""

    name = "rust"
    builtins = BUILTINS
    dotted = True
    scattered = True
    named_alike = True
    members_in_body = False
    elements = ("next()[]",)
    containers = _HOLDERS
    common = words(
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

    def holds(self, facts: Facts) -> str:
        """The crate of the file."""
        return f"crate of {facts.path}"

    def modules(self, name: str, path: str, layout: Layout) -> tuple[str, ...]:
        """The file of `crate.a.b`, `self.b`, `super.b`, another crate's, or one below the file."""
        return modules_of(name, path, layout)

    def submodule(self, name: str) -> str:
        """A module in a file of its own."""
        return f"self.{name}"

    def siblings(self, name: str, path: str, layout: Layout) -> tuple[str, ...]:
        """Files of the crate that define a member; a macro is seen in all files, without import."""
        if not path.startswith("crate of "):
            is_macro = name[:1].islower() and name not in BUILTINS
            found = layout.project.defining(name) if is_macro else ()
            home = crate_of(path, layout)
        else:
            found = layout.project.defining(name)
            home = crate_of(path.removeprefix("crate of "), layout)
        return tuple(
            sorted(each for each in found if each.endswith(".rs") and crate_of(each, layout) == home)
        )

    def outside(self, module: str, name: str, path: str, layout: Layout) -> str:
        """`std::fmt::Display`; nothing for what the crate itself should have."""
        if module.partition(".")[0] in ("self", "super", "crate"):
            return ""
        parts = module.split(".")
        return "::".join([*parts, name] if name not in ("", "*") else parts)

    def beyond(self, outside: str, step: str) -> str:
        """`serde_json::Value` called is one; its members follow `::`."""
        if step[0] == "." and head_of(outside) in BUILTINS:
            return outside + step
        if step[0] == ".":
            return f"{outside}::{step[1:]}" if not outside.endswith(")") else ""
        is_type = outside.rpartition("::")[2][:1].isupper()
        return outside if is_type and step == "()" else outside + step

    def is_standard(self, outside: str) -> bool:
        """Whether it is of `std`, `core` or `alloc`."""
        return outside.partition("::")[0] in ("std", "core", "alloc")

    def full_name(self, path: str, name: str, layout: Layout) -> str:
        """`shop::store::Store::get`."""
        crate, module = module_of(path, layout)
        return "::".join(part for part in (crate, *module, *name.split(".")) if part) or path

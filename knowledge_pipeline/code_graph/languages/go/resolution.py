"""How Go's names lead to definitions: packages are folders, methods lie anywhere in theirs."""

from __future__ import annotations

from knowledge_pipeline.code_graph.facts import FileFacts
from knowledge_pipeline.code_graph.languages.base import Language
from knowledge_pipeline.code_graph.languages.go.modules import (
    TESTS_SUFFIX,
    find_front_file,
    find_package_folder,
    import_path_of,
    list_package_files,
)
from knowledge_pipeline.code_graph.languages.go.values import BUILTINS
from knowledge_pipeline.code_graph.languages.words import split_words
from knowledge_pipeline.code_graph.project_layout import Layout


class Go(Language):
    """Go, as its specification says: https://go.dev/ref/spec."""

    name = "go"
    builtins = BUILTINS
    has_scattered_members = True
    members_in_body = False
    type_calls_convert = True
    nested_methods_in_scope = False
    element_accessors = ("@held[]",)
    call_method = "@held"
    common_methods = split_words(
        """
        Error String Close Read Write Len Less Swap Lock Unlock RLock RUnlock Add Done Wait Get Set Next
        Scan Text Bytes Name Run Start Stop Value Key Err Reset Flush Format Print Printf Println Errorf
        Fatal Fatalf Log Logf Helper Unwrap Is As Load Store Delete Range Do Equal Before After Sub Copy
        Append Seek ReadAll WriteString WriteByte ReadByte ReadString Marshal Unmarshal Encode Decode
        MarshalJSON UnmarshalJSON ServeHTTP Header Body Status Type Kind Size Path Open Create Remove
        """
    )

    def lookup_home(self, facts: FileFacts) -> str:
        """The folder; for a test, with the tests in it."""
        folder = facts.path.rpartition("/")[0]
        return f"{folder}/{TESTS_SUFFIX if facts.path.endswith('_test.go') else ''}"

    def find_modules(self, name: str, path: str, layout: Layout) -> tuple[str, ...]:
        """The package's folder, and the file that stands for it."""
        folder = find_package_folder(name, path, layout)
        if folder is None:
            return ()
        front = find_front_file(folder, layout)
        return (f"{folder}/", front) if front else (f"{folder}/",)

    def find_siblings(self, name: str, path: str, layout: Layout) -> tuple[str, ...]:
        """Files of the package that define a name."""
        tests = path.endswith(f"/{TESTS_SUFFIX}")
        folder = path.removesuffix(TESTS_SUFFIX).removesuffix("/")
        return tuple(
            sorted(
                list_package_files(folder, layout, tests=tests).intersection(
                    layout.project.files_defining(name)
                )
            )
        )

    def is_standard_library(self, external: str) -> bool:
        """Whether it is of the standard library: no host stands before it."""
        return "." not in external.partition("/")[0] if "/" in external else external.count(".") < 3

    def full_name(self, path: str, name: str, layout: Layout) -> str:
        """`example.com/app/store.Store.Get`; the package for a file."""
        package = import_path_of(path, layout)
        return ".".join(part for part in (package, name) if part) or path

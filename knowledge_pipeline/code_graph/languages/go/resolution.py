"""How Go's names lead to definitions: packages are folders, methods lie anywhere in theirs."""

from __future__ import annotations

from knowledge_pipeline.code_graph.facts import Facts
from knowledge_pipeline.code_graph.languages.base import Language
from knowledge_pipeline.code_graph.languages.go.modules import (
    TESTS,
    files_of,
    front_of,
    full_package,
    package_folder,
)
from knowledge_pipeline.code_graph.languages.go.values import BUILTINS
from knowledge_pipeline.code_graph.languages.words import words
from knowledge_pipeline.code_graph.project_layout import Layout


class Go(Language):
    """Go, as its specification says: https://go.dev/ref/spec."""

    name = "go"
    builtins = BUILTINS
    scattered = True
    members_in_body = False
    types_convert = True
    bare_methods = False
    elements = ("@held[]",)
    when_called = "@held"
    common = words(
        """
        Error String Close Read Write Len Less Swap Lock Unlock RLock RUnlock Add Done Wait Get Set Next
        Scan Text Bytes Name Run Start Stop Value Key Err Reset Flush Format Print Printf Println Errorf
        Fatal Fatalf Log Logf Helper Unwrap Is As Load Store Delete Range Do Equal Before After Sub Copy
        Append Seek ReadAll WriteString WriteByte ReadByte ReadString Marshal Unmarshal Encode Decode
        MarshalJSON UnmarshalJSON ServeHTTP Header Body Status Type Kind Size Path Open Create Remove
        """
    )

    def home(self, facts: Facts) -> str:
        """The folder; for a test, with the tests in it."""
        folder = facts.path.rpartition("/")[0]
        return f"{folder}/{TESTS if facts.path.endswith('_test.go') else ''}"

    def modules(self, name: str, path: str, layout: Layout) -> tuple[str, ...]:
        """The package's folder, and the file that stands for it."""
        folder = package_folder(name, path, layout)
        if folder is None:
            return ()
        front = front_of(folder, layout)
        return (f"{folder}/", front) if front else (f"{folder}/",)

    def siblings(self, name: str, path: str, layout: Layout) -> tuple[str, ...]:
        """Files of the package that define a name."""
        tests = path.endswith(f"/{TESTS}")
        folder = path.removesuffix(TESTS).removesuffix("/")
        return tuple(
            sorted(files_of(folder, layout, tests=tests).intersection(layout.project.defining(name)))
        )

    def is_standard(self, outside: str) -> bool:
        """Whether it is of the standard library: no host stands before it."""
        return "." not in outside.partition("/")[0] if "/" in outside else outside.count(".") < 3

    def full_name(self, path: str, name: str, layout: Layout) -> str:
        """`example.com/app/store.Store.Get`; the package for a file."""
        package = full_package(path, layout)
        return ".".join(part for part in (package, name) if part) or path

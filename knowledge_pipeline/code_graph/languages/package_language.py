"""What languages have in common whose files say which package they belong to: Java, Kotlin, Scala, C#.

A package is named by its path with "/" last ("com.acme.app/"); its files are found by what they say,
wherever they lie, so files of several such languages meet in one package.
"""

from __future__ import annotations

from knowledge_pipeline.code_graph.facts import FileFacts
from knowledge_pipeline.code_graph.languages.base import Language
from knowledge_pipeline.code_graph.project_layout import Layout


class PackageLanguage(Language):
    """A language whose names are looked for in packages."""

    members_in_scope = True
    has_dotted_modules = True
    standard_prefixes: tuple[str, ...] = ()
    """How the packages of the language's own library start: "java."."""
    nested_packages = False
    """Whether a file also sees what the packages around its own define."""

    def lookup_home(self, facts: FileFacts) -> str:
        """The package."""
        return f"{facts.module}/"

    def find_modules(self, name: str, path: str, layout: Layout) -> tuple[str, ...]:
        """A package that has files, or packages within it."""
        if name.startswith("."):
            name = path.rstrip("/") + name
        found = (f"{name}/",) if layout.project.files_defining(f"within {name}") else ()
        if not found and self.nested_packages and path.endswith("/"):
            around = path.rstrip("/")
            while around and not found:
                found = self.find_modules(f"{around}.{name}", "", layout)
                around = around.rpartition(".")[0]
        return found

    def submodule_name(self, name: str) -> str:
        """A package within a package."""
        return f".{name}"

    def find_siblings(self, name: str, path: str, layout: Layout) -> tuple[str, ...]:
        """Files of the package that define a name; of the nearest around it, where those are seen."""
        package = path.rstrip("/")
        while True:
            found = layout.get_or_build(_list_package_files, package).intersection(
                layout.project.files_defining(name)
            )
            if found or not self.nested_packages or not package:
                return tuple(sorted(found))
            package = package.rpartition(".")[0]

    def external_name(self, module: str, name: str, path: str, layout: Layout) -> str:
        """`java.util.List`; the package itself for all that is in it."""
        return f"{module}.{name}" if name not in ("", "*") else module

    def is_standard_library(self, external: str) -> bool:
        """Whether it is of a package of the language's own library."""
        return external.startswith(self.standard_prefixes) if self.standard_prefixes else False

    def full_name(self, path: str, name: str, layout: Layout) -> str:
        """`com.acme.app.Type.member`; the package for a file."""
        module = layout.facts(path).module
        return ".".join(part for part in (module, name) if part) or path


def _list_package_files(layout: Layout, package: str) -> frozenset[str]:
    return frozenset(layout.project.files_defining(f"package {package}"))

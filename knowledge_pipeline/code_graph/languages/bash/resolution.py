"""How names in shell scripts lead to definitions: of the script, and of those that it sources."""

from __future__ import annotations

from knowledge_pipeline.code_graph.languages.base import Language
from knowledge_pipeline.code_graph.project_layout import Layout, join_path


class Bash(Language):
    """Bash, and shells like it. What no script defines is a program outside of the source."""

    name = "bash"

    def is_star_exported(self, name: str) -> bool:
        """A sourced script gives all that it defines."""
        return True

    def find_modules(self, name: str, path: str, layout: Layout) -> tuple[str, ...]:
        """The script beside another one, from the source's root, or the only one with that end."""
        folder = path.rpartition("/")[0]
        plain = "/".join(part for part in name.split("/") if part not in ("", ".", ".."))
        for each in (join_path(folder, name), plain):
            if each in layout.paths:
                return (each,)
        found = layout.files_named(plain.rpartition("/")[2])
        found = tuple(each for each in found if each.endswith(f"/{plain}"))
        return found if len(found) == 1 else ()

"""Questions worth asking of what was just indexed: about what is used most, and what is written of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from knowledge_pipeline.config.sources.source import SourceConfig
from knowledge_pipeline.file_roles import classify_file
from knowledge_pipeline.store.filters import eq, is_null, one_of
from knowledge_pipeline.store.lake import Lake

MAX_QUESTIONS = 3
_MIN_NAME_CHARS, _MIN_HEADING_WORDS, _MAX_HEADING_CHARS = 4, 2, 60


def suggest_questions(lake: Lake, sources: Iterable[SourceConfig]) -> list[str]:
    """At most three command lines, each a question that these sources answer."""
    by_type: dict[str, list[str]] = {}
    for source in sources:
        by_type.setdefault(source.type, []).append(source.id)
    questions: list[str] = []
    if name := _find_most_used_name(lake, by_type.get("code", [])):
        questions += [
            f'knowledge search "how does {name} work" --type code',
            f"knowledge graph usages {name}",
        ]
    if heading := _find_heading(lake, by_type.get("markdown", [])):
        questions.insert(1, f'knowledge search "{heading}"')
    if name and by_type.get("git_history"):
        questions.append(f'knowledge search "why was {name} changed" --type historical')
    return questions[:MAX_QUESTIONS]


def _find_most_used_name(lake: Lake, sources: list[str]) -> str | None:
    """The definition that most files use, of those that are no tests and no special methods."""
    edges = lake.graph_table("edges")
    where = one_of("source", sources) & ~is_null("target_path") & one_of("kind", ["calls", "references"])
    rows: list[dict[str, Any]] = edges.read_rows(["path", "target_path", "target_name"], where).to_pylist()
    users = {
        (row["target_path"], row["target_name"], row["path"])
        for row in rows
        if row["target_name"] and row["path"] != row["target_path"]
    }
    counted = Counter((path, name) for path, name, _ in users if classify_file(path) == "source")
    for (_, name), _ in sorted(counted.items(), key=lambda item: (-item[1], item[0])):
        simple = name.rpartition(".")[2]
        if len(simple) >= _MIN_NAME_CHARS and not simple.startswith("_"):
            return name
    return None


def _find_heading(lake: Lake, sources: list[str]) -> str | None:
    """A heading of the document that comes first: a README, else by path."""
    found: list[tuple[bool, str, int, str]] = []
    for source in sources:
        chunks = lake.chunks("markdown", source)
        where = ~is_null("section") & eq("archived", False)
        for row in chunks.read_rows(["path", "start_line", "section"], where).to_pylist():
            heading = row["section"].rpartition(" > ")[2].strip().replace('"', "")
            is_readable = len(heading.split()) >= _MIN_HEADING_WORDS and len(heading) <= _MAX_HEADING_CHARS
            if is_readable and heading.isascii() and not set(heading) & set("`$\\!"):
                is_readme = row["path"].lower().startswith("readme")
                found.append((not is_readme, row["path"], row["start_line"], heading))
    return min(found)[-1] if found else None

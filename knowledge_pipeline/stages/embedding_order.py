"""In which order the texts of a source are embedded: first what people read and change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Any

from knowledge_pipeline.file_roles import classify_file
from knowledge_pipeline.stages.context import RefreshContext
from knowledge_pipeline.store.filters import eq, is_null

_ROLE_RANKS = {"source": 0, "test": 1, "generated": 2}


def order_texts(ctx: RefreshContext, keys: Collection[str]) -> list[str]:
    """Keys of texts: sources before tests, examples and generated files, live before archived ones.

    Among those, files that others use most come first (by powers of two), then the last modified ones.
    """
    uses, wanted = _count_uses(ctx), set(keys)
    columns = ["text_key", "path", "archived", "last_modified"]
    places: dict[str, tuple[Any, ...]] = {}
    for batch in ctx.lake.chunks(ctx.source.type, ctx.source.id).iter_batches(columns, is_null("skipped")):
        for key, path, archived, modified in zip(*batch.to_pydict().values(), strict=True):
            if key in wanted:
                age = -modified.timestamp() if modified else 0.0
                role = _ROLE_RANKS[classify_file(path)]
                place = archived, role, -uses[path].bit_length(), age, path
                places[key] = min(place, places.get(key, place))
    return sorted(places, key=lambda key: (places[key], key))


def _count_uses(ctx: RefreshContext) -> Counter[str]:
    """How often other files use a file, by the code graph; nothing where there is none."""
    where = eq("source", ctx.source.id) & ~is_null("target_path")
    edges = ctx.lake.graph_table("edges").read_rows(["path", "target_path"], where)
    ends: Any = zip(edges["path"].to_pylist(), edges["target_path"].to_pylist(), strict=True)
    return Counter(str(target) for path, target in ends if path != target)

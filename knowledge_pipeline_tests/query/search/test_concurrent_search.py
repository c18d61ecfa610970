"""Many callers at once: each sees their own rows of one release, whatever is published meanwhile."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from knowledge_pipeline import Access, KnowledgeBase
from knowledge_pipeline.store.filters import eq
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline_tests.query.search.rows import DIMENSIONS, publish, row, write

TENANTS = ("acme", "bolt", "core")
TEXT = "def settle(): the {generation} ledger of {tenant}, part {part} "


def build_rows(generation: str) -> list[dict[str, Any]]:
    """Six files of each tenant, of which each row says whose and of when it is."""
    return [
        row(
            TEXT.format(generation=generation, tenant=tenant, part=part)
            + " ".join(f"word{part}x{at}" for at in range(20)),  # else they are nearly equal
            f"{tenant}{part}.py",
        )
        | {"visibility": "tenant", "tenant": tenant}
        for tenant in TENANTS
        for part in range(6)
    ]


def read(base: KnowledgeBase, tenant: str, question: str) -> tuple[int, list[str]]:
    """The release that answered a caller of a tenant, and the texts."""
    access = Access(tenant, frozenset({"ann"}))
    response = base.search(question, access=access, limit=10)
    assert not response.degraded
    return response.release, [result.content for result in response.results]


def test_no_answer_mixes_callers_or_releases_nor_has_what_was_erased(
    base: KnowledgeBase, lake: Lake, space: str
) -> None:
    write(lake, space, build_rows("first"))
    publish(lake)
    stop, answers = threading.Event(), list[tuple[str, int, list[str]]]()

    def ask(number: int) -> None:
        tenant, asked = TENANTS[number % len(TENANTS)], 0
        while not stop.is_set() or asked < 8:
            answers.append((tenant, *read(base, tenant, f"settle the ledger, part {asked % 6}")))
            asked += 1

    with ThreadPoolExecutor(9) as pool:
        asking = [pool.submit(ask, number) for number in range(9)]
        try:
            write(lake, space, build_rows("second"))
            publish(lake)
            table = lake.index(space, DIMENSIONS)
            table.delete_where(eq("path", "acme0.py"))
            table.purge_deleted_rows()
            publish(lake)
        finally:
            stop.set()
        for each in asking:
            each.result()
    generations: dict[int, set[str]] = {}
    for tenant, release, texts in answers:
        assert texts and all(f"of {tenant}, " in text for text in texts)
        generations.setdefault(release, set()).update(text.split()[3] for text in texts)
    assert all(len(found) == 1 for found in generations.values()), generations
    release, texts = read(base, "acme", "settle the ledger, part 0")
    assert release == 3 and len(texts) == 5 and not any("part 0 " in text for text in texts)
    assert any("of acme, part 0 " in text for _, _, texts in answers for text in texts)

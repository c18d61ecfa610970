"""How much of everything the tests try: `make test` the essence, `make test-all` all of it.

Three things tell them apart. A test that is marked `slow` runs with `make test-all` alone; of one marked
`sampled`, `make test` runs one set of parameters; and a property is tried on fewer `examples`.
"""

import os
from collections.abc import Iterable
from zlib import crc32

import pytest

ALL_VARIABLE = "KNOWLEDGE_TEST_ALL"
_PART, _LEAST = 5, 4


def examples(count: int, *, few: int | None = None) -> int:
    """So many examples of a property with `make test-all`, a fifth of them, 4 at least, with `make test`.

    Args:
        count: with `make test-all`.
        few: with `make test`, where an example takes seconds.
    """
    if os.environ.get(ALL_VARIABLE):
        return count
    return few if few is not None else min(count, max(count // _PART, _LEAST))


def stride(few: int, *, all_of: int = 1) -> int:
    """Of how many steps one is tried: of `all_of` with `make test-all`, of `few` with `make test`."""
    return all_of if os.environ.get(ALL_VARIABLE) else few


def mark_further_parameters_slow(items: Iterable[pytest.Item]) -> None:
    """Mark all sets of parameters but one of each test that is marked `sampled`.

    Which one stays depends on the test's name, so that tests that share parameters take different ones.
    """
    sampled: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("sampled"):
            sampled.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for test, variants in sampled.items():
        stays = variants[crc32(test.encode()) % len(variants)]
        for item in variants:
            if item is not stays:
                item.add_marker(pytest.mark.slow)

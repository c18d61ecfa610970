"""An event loop of its own, for callers that wait."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from knowledge_pipeline.sync_facade import BackgroundLoop


def test_generators_that_were_left_half_way_are_closed_with_the_loop() -> None:
    closed: list[str] = []

    async def count() -> AsyncGenerator[int]:
        try:
            yield 1
            yield 2
        finally:
            closed.append("inner")

    async def double() -> AsyncGenerator[int]:
        try:
            async for number in count():
                yield 2 * number
        finally:
            closed.append("outer")

    async def read_first(numbers: AsyncGenerator[int]) -> int:
        return await anext(numbers)

    async def end_nothing() -> None:
        return None

    loop = BackgroundLoop("reader", on_start=lambda: None, on_close=end_nothing)
    numbers = double()
    assert loop.wait_for(read_first(numbers)) == 2
    loop.close()
    assert sorted(closed) == ["inner", "outer"]

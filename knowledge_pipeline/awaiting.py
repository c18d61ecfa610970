"""Awaits several things at once."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

ResultT = TypeVar("ResultT")


async def gather_all(coroutines: Iterable[Coroutine[Any, Any, ResultT]]) -> list[ResultT]:
    """What coroutines return, in their order. One alone runs in the caller's task: most questions have one.

    Raises what the first of them raises that fails; the others go on.
    """
    waiting = list(coroutines)
    if len(waiting) == 1:
        return [await waiting[0]]
    return await asyncio.gather(*waiting)

"""The process that `background` starts: answers queries at low priority until its input ends.

The first frame has the settings; each further one a number, what to call, and with what. An answer has the
number, and the result or the error. A number without a function cancels that query.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import sys
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from knowledge_pipeline.background import pack_frame, read_frame
from knowledge_pipeline.config.settings import Settings

NICENESS = 10  # a tenth of the share of a process of normal priority, and all that such processes leave
_AUTOGROUP = Path("/proc/self/autogroup")


class _Worker:
    """Answers several queries at once, by a knowledge base of its own."""

    def __init__(self, settings: Settings, answers: IO[bytes]) -> None:
        from knowledge_pipeline.knowledge_base import AsyncKnowledgeBase

        logs = settings.logs.model_copy(update={"queries": False})  # who started this process logs them
        self._base = AsyncKnowledgeBase(settings.model_copy(update={"logs": logs}))
        self._answers = answers
        self._tasks: dict[int, asyncio.Task[None]] = {}

    async def serve(self, requests: asyncio.StreamReader) -> None:
        """Answer until the input ends."""
        while True:
            try:
                request = await read_frame(requests)
            except asyncio.IncompleteReadError:
                break
            number, _, function, *_ = request
            if function is not None:
                self._tasks[number] = asyncio.create_task(self._answer(*request))
            elif task := self._tasks.get(number):
                task.cancel()
        self._base.close()
        os._exit(0)  # whatever still runs: nobody waits for it

    async def _answer(self, number: int, owner: type[Any] | None, function: Any, args: Any, kw: Any) -> None:
        result, error = None, None
        try:
            if owner is None:
                result = await asyncio.to_thread(function, *args, **kw)
            else:
                result = await self._base.loop.run(function(self._base.components[owner], *args, **kw))
        except Exception as raised:  # noqa: BLE001 - raised again where the query came from
            error = raised
        finally:
            del self._tasks[number]
        try:
            frame = pack_frame((number, result, error))
        except (pickle.PicklingError, TypeError, AttributeError):
            frame = pack_frame((number, None, RuntimeError(f"{type(error).__name__}: {error}")))
        self._answers.write(frame)
        self._answers.flush()


async def _main(answers: IO[bytes]) -> None:
    requests = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(requests)
    await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, sys.stdin.buffer)
    await _Worker(await read_frame(requests), answers).serve(requests)


def _yield_to_others() -> None:
    """Lower the priority of this process, which has a session of its own.

    Where Linux groups processes by session (sched(7), "The autogroup feature"), niceness counts among those
    of one session alone, and the session's own among all.
    """
    os.nice(NICENESS)
    with suppress(OSError):  # another system, or groups by session are off
        _AUTOGROUP.write_text(str(NICENESS))


if __name__ == "__main__":
    _yield_to_others()
    own = os.dup(1)
    os.dup2(2, 1)  # what a library prints must not end up between the answers
    with os.fdopen(own, "wb") as out:
        asyncio.run(_main(out))

"""A second process of lower priority, for queries that hold a processor long enough for others to notice.

Python runs one thread of a process at a time, so a context that is built beside a search makes it wait,
however fair the turns are. In a process of its own it takes what the others leave.

The process starts with the first query and ends when it has had none for a while. `background_worker` is its
other end. Both are this program, so what they exchange is pickled.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any, Concatenate, ParamSpec, TypeVar

from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.errors import TransientError

_FRAME_LENGTH = 8  # bytes, that say how long the pickled value after them is
IDLE_S = 300.0  # without a query, until the process ends and its memory is free

OwnerT = TypeVar("OwnerT")
ResultT = TypeVar("ResultT")
ParamsT = ParamSpec("ParamsT")


def pack_frame(value: object) -> bytes:
    """A value as it goes through the pipe."""
    pickled = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    return len(pickled).to_bytes(_FRAME_LENGTH) + pickled


async def read_frame(pipe: asyncio.StreamReader) -> Any:
    """The next value of the pipe. Raises `asyncio.IncompleteReadError`: the other process has ended."""
    length = int.from_bytes(await pipe.readexactly(_FRAME_LENGTH))
    return pickle.loads(await pipe.readexactly(length))  # noqa: S301 - from our own process


class BackgroundProcess:
    """Answers queries of one store at low priority. Belongs to one event loop; end it with `aclose` there."""

    def __init__(self, settings: Settings, *, is_wanted: Callable[[], bool], idle_s: float = IDLE_S) -> None:
        """Start nothing yet. While it is not `is_wanted`, everything is computed in this process."""
        self._settings, self._is_wanted, self._idle_s = settings, is_wanted, idle_s
        self._starting = asyncio.Lock()
        self._process: Process | None = None
        self._reader: asyncio.Task[None] | None = None
        self._pending: dict[int, asyncio.Future[Any]] = {}
        self._last_number = 0
        self._idle: asyncio.TimerHandle | None = None

    @property
    def pid(self) -> int | None:
        """The process; None while there is none."""
        return self._process.pid if self._process else None

    def choose(
        self,
        owner: OwnerT,
        method: Callable[Concatenate[OwnerT, ParamsT], Coroutine[Any, Any, ResultT]],
    ) -> Callable[ParamsT, Coroutine[Any, Any, ResultT]]:
        """The method bound to its owner, one of `AsyncKnowledgeBase.components`, or to that of the process.

        What is returned raises what the method raises, and `TransientError` if the process ends before it
        has answered.
        """
        if not self._is_wanted():
            return partial(method, owner)
        return partial(self._request, type(owner), method)

    async def compute(
        self, function: Callable[ParamsT, ResultT], *args: ParamsT.args, **kwargs: ParamsT.kwargs
    ) -> ResultT:
        """What a function of a module returns, computed in a thread or in the process; raises as it does."""
        if not self._is_wanted():
            return await asyncio.to_thread(function, *args, **kwargs)
        return await self._request(None, function, *args, **kwargs)

    async def aclose(self) -> None:
        """End the process; a later query starts another."""
        process, self._process = self._process, None
        if self._idle:
            self._idle.cancel()
        if self._reader:
            self._reader.cancel()
            await asyncio.gather(self._reader, return_exceptions=True)
        if process:
            with suppress(ProcessLookupError):
                process.kill()
            await process.communicate()  # closes the pipes

    async def _request(self, owner: type[Any] | None, function: Any, *args: Any, **kwargs: Any) -> Any:
        async with self._starting:
            process = self._process or await self._start()
        assert process.stdin
        self._last_number += 1
        number = self._last_number
        answer = self._pending[number] = asyncio.get_running_loop().create_future()
        if self._idle:
            self._idle.cancel()
        process.stdin.write(pack_frame((number, owner, function, args, kwargs)))
        try:
            return await answer
        except asyncio.CancelledError:
            process.stdin.write(pack_frame((number, None, None)))  # nobody waits for it
            raise
        finally:
            self._pending.pop(number, None)
            if not self._pending and self._process is process:
                loop = asyncio.get_running_loop()
                self._idle = loop.call_later(self._idle_s, lambda: loop.create_task(self._end_if_idle()))

    async def _start(self) -> Process:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        module = "knowledge_pipeline.background_worker"
        command = [sys.executable, "-P", "-W", "ignore", "-m", module]
        process = await asyncio.create_subprocess_exec(
            *command, stdin=PIPE, stdout=PIPE, env=environment, start_new_session=True
        )
        assert process.stdin and process.stdout
        process.stdin.write(pack_frame(self._settings))
        self._process = process
        self._reader = asyncio.create_task(self._read_answers(process, process.stdout))
        return process

    async def _read_answers(self, process: Process, answers: asyncio.StreamReader) -> None:
        try:
            while True:
                number, result, error = await read_frame(answers)
                waiting = self._pending.get(number)
                if waiting is None or waiting.done():
                    continue
                if error is None:
                    waiting.set_result(result)
                else:
                    waiting.set_exception(error)
        except asyncio.IncompleteReadError:
            if self._process is process:
                self._process = None
            for waiting in self._pending.values():
                if not waiting.done():
                    waiting.set_exception(
                        TransientError("the process that was answering ended unexpectedly: try again")
                    )
            await process.wait()

    async def _end_if_idle(self) -> None:
        if not self._pending and not self._starting.locked():
            await self.aclose()

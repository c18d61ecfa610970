"""An event loop on a thread of its own, and synchronous facades over objects that live on it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from concurrent.futures import CancelledError, Future
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

CLOSE_S = 5.0  # how long `close` waits for the thread to end

ResultT = TypeVar("ResultT")
TargetT = TypeVar("TargetT")
ParamsT = ParamSpec("ParamsT")


class BackgroundLoop:
    """Runs coroutines on one event loop, whose thread starts with the first of them.

    `on_start` is called when the thread has started; `on_close` runs on the loop before it ends.
    """

    def __init__(
        self, name: str, *, on_start: Callable[[], None], on_close: Callable[[], Awaitable[None]]
    ) -> None:
        self._name = name
        self._on_start, self._on_close = on_start, on_close
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._is_closed = False
        self._lock = threading.Lock()

    async def run(self, coroutine: Coroutine[Any, Any, ResultT]) -> ResultT:
        """Await a coroutine of the background loop on any loop. Raises `RuntimeError`: it is closed."""
        if asyncio.get_running_loop() is self._loop:
            return await coroutine
        try:
            return await asyncio.wrap_future(self._submit(coroutine))
        except asyncio.CancelledError:
            if self._is_closed:
                raise RuntimeError(self._closed_early) from None
            raise

    def wait_for(self, coroutine: Coroutine[Any, Any, ResultT]) -> ResultT:
        """Block until a coroutine has ended. Raises as `run` does."""
        try:
            return self._submit(coroutine).result()
        except CancelledError:
            raise RuntimeError(self._closed_early) from None

    def close(self) -> None:
        """Cancel what is running and end the thread."""
        with self._lock:
            loop = None if self._is_closed else self._loop
            self._is_closed = True  # before the loop ends, so that its cancelled coroutines say so
            if loop is not None:
                loop.call_soon_threadsafe(loop.stop)
        if self._thread is not None:
            self._thread.join(CLOSE_S)

    @property
    def _closed_early(self) -> str:
        return f"this {self._name} was closed before it had an answer"

    def _submit(self, coroutine: Coroutine[Any, Any, ResultT]) -> Future[ResultT]:
        with self._lock:
            if self._is_closed:
                coroutine.close()
                raise RuntimeError(f"this {self._name} is closed")
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._run_loop, args=(self._loop,), name=self._name, daemon=True
                )
                self._thread.start()
                self._on_start()
            return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def _run_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        loop.run_forever()
        loop.run_until_complete(self._cancel_all())
        loop.run_until_complete(_end_generators(loop))
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()

    async def _cancel_all(self) -> None:
        unfinished = asyncio.all_tasks() - {asyncio.current_task()}
        for task in unfinished:
            task.cancel()
        await asyncio.gather(*unfinished, return_exceptions=True)
        await self._on_close()


async def _end_generators(loop: asyncio.AbstractEventLoop) -> None:
    """Close generators that nobody read to their end; each leaves those that it read to be closed next."""
    await loop.shutdown_asyncgens()
    await asyncio.sleep(0)
    while tasks := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)


class SyncFacade(Generic[TargetT]):
    """Base of classes whose methods are `blocking` forms of those of an asynchronous object."""

    def __init__(self, target: TargetT, loop: BackgroundLoop) -> None:
        self._target, self._loop = target, loop

    def call(
        self,
        method: Callable[Concatenate[TargetT, ParamsT], Coroutine[Any, Any, ResultT]],
        *args: ParamsT.args,
        **kwargs: ParamsT.kwargs,
    ) -> ResultT:
        """Wait for a method of the asynchronous object."""
        return self._loop.wait_for(method(self._target, *args, **kwargs))

    async def run(
        self,
        method: Callable[Concatenate[TargetT, ParamsT], Coroutine[Any, Any, ResultT]],
        *args: ParamsT.args,
        **kwargs: ParamsT.kwargs,
    ) -> ResultT:
        """Await a method of the asynchronous object on any loop."""
        return await self._loop.run(method(self._target, *args, **kwargs))


def blocking(
    method: Callable[Concatenate[TargetT, ParamsT], Coroutine[Any, Any, ResultT]],
) -> Callable[Concatenate[SyncFacade[TargetT], ParamsT], ResultT]:
    """The method of a `SyncFacade` that waits for a method of its target; same signature."""

    @wraps(method)
    def wait(facade: SyncFacade[TargetT], /, *args: ParamsT.args, **kwargs: ParamsT.kwargs) -> ResultT:
        return facade.call(method, *args, **kwargs)

    return wait


def same_arguments(
    original: Callable[Concatenate[Any, ParamsT], None],
) -> Callable[[Callable[..., None]], Callable[Concatenate[Any, ParamsT], None]]:
    """Declare that a method passes its arguments on to another one, whose signature it has."""
    return wraps(original)  # pyright: ignore[reportReturnType]


async def gather_all(coroutines: Iterable[Coroutine[Any, Any, ResultT]]) -> list[ResultT]:
    """What coroutines return, in their order. One alone runs in the caller's task: most questions have one.

    Raises what the first of them raises that fails; the others go on.
    """
    waiting = list(coroutines)
    if len(waiting) == 1:
        return [await waiting[0]]
    return await asyncio.gather(*waiting)

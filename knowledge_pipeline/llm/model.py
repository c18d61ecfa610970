"""Completions from any endpoint that speaks OpenAI's `/chat/completions`: OpenAI, Ollama, vLLM, OpenRouter.

Neither keys nor texts are ever part of a message or a log.
API: https://platform.openai.com/docs/api-reference/chat/create
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import httpx
import tenacity

from knowledge_pipeline.config.settings import LanguageModelSettings
from knowledge_pipeline.endpoints.address import authorization, endpoint_url, shown, trusted
from knowledge_pipeline.endpoints.rate_limit import Pace, asked_to_wait_s, wait_s
from knowledge_pipeline.endpoints.responses import Refusal, Section, Trouble, parse_answer
from knowledge_pipeline.endpoints.token_estimates import encodable, estimated_tokens
from knowledge_pipeline.errors import KnowledgeError, LanguageModelUnavailable, ModelMissing
from knowledge_pipeline.llm.model_calls import Call, Completion, Message, current_payer
from knowledge_pipeline.llm.responses import Dialect, Said, parse_said, told_tokens

REST_S = 30.0  # an endpoint that is down, or refuses everything, is left alone for so long
MAX_RETRY_AFTER_S = 120.0  # an endpoint that asks for more is unavailable
MAX_TOKENS = 1000  # of an answer and the thinking before it, by default
_SECTION = "language_model"  # of knowledge.yaml
_CONNECT_S = 5.0
_MESSAGE_TOKENS = 4  # roughly, that each message costs beside its content

Recorder = Callable[[Call], None]


@dataclass(slots=True)
class _Asking:
    """One completion on its way: its request, and what it took so far."""

    messages: Sequence[dict[str, str]]
    max_tokens: int
    deadline: float  # time.monotonic()
    began: float = field(default_factory=time.monotonic)
    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0

    @property
    def left_s(self) -> float:
        return self.deadline - time.monotonic()

    @property
    def estimate(self) -> int:
        """Tokens of the prompt."""
        return sum(_MESSAGE_TOKENS + len(estimated_tokens(one["content"])) for one in self.messages)


@dataclass(frozen=True, slots=True)
class _Connection:
    """What belongs to one event loop."""

    loop: asyncio.AbstractEventLoop
    client: httpx.AsyncClient
    slots: asyncio.Semaphore


class LanguageModel:
    """One model of one endpoint; for one event loop at a time.

    Connects with the first completion. `record` is called after each one, answered or not.
    """

    def __init__(self, settings: LanguageModelSettings, *, record: Recorder | None = None) -> None:
        """Raises `ConfigError`: base_url is no URL, or the key cannot be sent."""
        self._settings = settings
        self._section = Section(_SECTION, settings.model, "max_input_tokens")
        self._headers = authorization(settings.api_key, section=_SECTION)
        self._place = f"the language model at {shown(endpoint_url(settings.base_url, section=_SECTION))}"
        self._record = record
        self._requests = Pace(settings.requests_per_minute)
        self._tokens = Pace(settings.tokens_per_minute)
        self._dialect = Dialect()
        self._connected: _Connection | None = None
        self._resting: tuple[float, KnowledgeError] | None = None  # until time.monotonic(), and why

    @property
    def name(self) -> str:
        """The model, as the endpoint calls it."""
        return self._settings.model

    @property
    def max_input_tokens(self) -> int:
        """What the endpoint reads of one prompt."""
        return self._settings.max_input_tokens

    async def complete(
        self, messages: Sequence[Message], *, max_tokens: int = MAX_TOKENS, budget_s: float | None = None
    ) -> Completion:
        """What the model says next.

        Args:
            messages: the conversation so far.
            max_tokens: of the answer, the model's thinking included; at least 1.
            budget_s: seconds for all tries and waits together; None: as the settings' tries allow.

        Raises:
            LanguageModelUnavailable: no answer within the tries, the rates or the budget.
            ModelMissing: the endpoint refuses; the message says what to fix.
        """
        if self._resting and time.monotonic() < self._resting[0]:
            raise type(self._resting[1])(str(self._resting[1]))
        sent = [{"role": one.role, "content": encodable(one.content)} for one in messages]
        deadline = float("inf") if budget_s is None else time.monotonic() + budget_s
        asking = _Asking(sent, max_tokens, deadline)
        try:
            async with asyncio.timeout(budget_s):
                return await self._adapted(asking)
        except TimeoutError:
            raise LanguageModelUnavailable(
                f"{self._place} took more than {budget_s} s: allow it more time, or use a faster model"
            ) from None
        finally:
            self._note(asking)

    async def aclose(self) -> None:
        """Close the connections, on the event loop that they belong to."""
        connected, self._connected = self._connected, None
        if connected:
            await connected.client.aclose()

    async def _adapted(self, asking: _Asking) -> Completion:
        """The completion, in the dialect that the model turns out to want."""
        while True:
            dialect = self._dialect
            try:
                return await self._retried(asking, dialect)
            except Refusal as refusal:
                adapted = dialect.after(refusal)
                if adapted is None:
                    error = ModelMissing(f"{self._place} {refusal}")
                    if not refusal.about_this_request:
                        self._rest(error)
                    raise error from None
                self._dialect = adapted

    async def _retried(self, asking: _Asking, dialect: Dialect) -> Completion:
        tries = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception_type(Trouble),
            stop=lambda state: self._gives_up(state, asking),
            wait=wait_s,
            sleep=asyncio.sleep,
            reraise=True,
        )
        try:
            return await tries(self._once, asking, dialect)
        except Trouble as trouble:
            asked = f" and asks to wait {trouble.retry_after_s:.0f} s" if trouble.retry_after_s else ""
            error = LanguageModelUnavailable(
                f"{self._place} {trouble}{asked} (try {tries.statistics['attempt_number']} of "
                f"{self._settings.max_tries}): see whether it is up, or lower language_model.max_concurrent "
                "and requests_per_minute"
            )
            if isinstance(trouble.__cause__, httpx.ConnectError | httpx.ConnectTimeout):
                self._rest(error)
            raise error from None

    def _gives_up(self, state: tenacity.RetryCallState, asking: _Asking) -> bool:
        return (
            state.attempt_number >= self._settings.max_tries
            or asked_to_wait_s(state) > MAX_RETRY_AFTER_S
            or state.upcoming_sleep >= asking.left_s
        )

    async def _once(self, asking: _Asking, dialect: Dialect) -> Completion:
        await self._queue(asking)
        connection = self._connection()
        async with connection.slots:
            response = await self._sent(connection.client, asking, dialect)
        try:
            answer = parse_answer(response, self._section)
        except Trouble as trouble:
            self._requests.hold(min(trouble.retry_after_s, MAX_RETRY_AFTER_S))  # nobody asks before
            raise
        told = told_tokens(answer)
        if told:
            self._count(asking, *told)
        said = parse_said(answer)
        if not told:
            self._count(asking, asking.estimate, len(estimated_tokens(said.whole)))
        return self._completion(asking, said, estimated=not told)

    async def _queue(self, asking: _Asking) -> None:
        """Wait until the rates per minute allow a request, unless that is longer than the budget."""
        tokens = asking.estimate
        if (ahead_s := max(self._requests.ahead_s(), self._tokens.ahead_s())) >= asking.left_s:
            raise LanguageModelUnavailable(f"{self._place} is at its rate limit for another {ahead_s:.0f} s")
        await asyncio.sleep(max(self._requests.reserve(), self._tokens.reserve(tokens)))

    async def _sent(self, client: httpx.AsyncClient, asking: _Asking, dialect: Dialect) -> httpx.Response:
        settings = self._settings
        body = {"model": settings.model, "messages": asking.messages}
        body |= dialect.body(asking.max_tokens, settings.reasoning_effort)
        asking.requests += 1
        try:
            async with asyncio.timeout(settings.timeout_s):  # httpx bounds each step, not the whole
                return await client.post("chat/completions", json=body)
        except TimeoutError:
            raise Trouble(f"took more than {settings.timeout_s} s") from None
        except httpx.TransportError as error:
            raise Trouble(f"did not answer ({type(error).__name__})") from error

    def _count(self, asking: _Asking, prompt_tokens: int, completion_tokens: int) -> None:
        asking.prompt_tokens += prompt_tokens
        asking.completion_tokens += completion_tokens

    def _completion(self, asking: _Asking, said: Said, *, estimated: bool) -> Completion:
        return Completion(
            text=said.text,
            prompt_tokens=asking.prompt_tokens,
            completion_tokens=asking.completion_tokens,
            seconds=time.monotonic() - asking.began,
            cost=self._cost(asking),
            estimated=estimated,
            cut=said.cut,
        )

    def _cost(self, asking: _Asking) -> float:
        settings = self._settings
        return (
            asking.prompt_tokens * settings.price_per_million_input_tokens
            + asking.completion_tokens * settings.price_per_million_output_tokens
        ) / 1e6

    def _note(self, asking: _Asking) -> None:
        if self._record and asking.requests:
            self._record(
                Call(
                    at=datetime.now(UTC),
                    model=self.name,
                    requests=asking.requests,
                    tokens=asking.prompt_tokens + asking.completion_tokens,
                    cost=self._cost(asking),
                    seconds=time.monotonic() - asking.began,
                    payer=current_payer(),
                )
            )

    def _rest(self, error: KnowledgeError) -> None:
        self._resting = time.monotonic() + REST_S, error

    def _connection(self) -> _Connection:
        """Of the running loop: connections cannot go from one to another."""
        loop = asyncio.get_running_loop()
        if self._connected is None or self._connected.loop is not loop:
            settings = self._settings
            client = httpx.AsyncClient(
                base_url=endpoint_url(settings.base_url, section=_SECTION),
                headers=self._headers,
                timeout=httpx.Timeout(settings.timeout_s, connect=min(_CONNECT_S, settings.timeout_s)),
                verify=trusted(),
            )
            self._connected = _Connection(loop, client, asyncio.Semaphore(settings.max_concurrent))
        return self._connected

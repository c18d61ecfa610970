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
from knowledge_pipeline.endpoints.address import (
    build_auth_headers,
    format_url,
    get_ssl_context,
    parse_endpoint_url,
)
from knowledge_pipeline.endpoints.rate_limit import RateLimiter, compute_retry_wait_s, read_retry_after_s
from knowledge_pipeline.endpoints.responses import (
    ConfigSection,
    EndpointRefused,
    EndpointUnavailable,
    parse_response,
)
from knowledge_pipeline.endpoints.token_estimates import estimate_token_starts, replace_surrogates
from knowledge_pipeline.errors import KnowledgeError, LanguageModelUnavailable, ModelError
from knowledge_pipeline.llm.model_calls import Completion, Message, ModelCall, get_current_account
from knowledge_pipeline.llm.responses import ChatChoice, RequestDialect, parse_billed_tokens, parse_choice

PAUSE_S = 30.0  # an endpoint that is down, or refuses everything, is left alone for so long
MAX_RETRY_AFTER_S = 120.0  # an endpoint that asks for more is unavailable
DEFAULT_MAX_TOKENS = 1000  # of an answer and the thinking before it, by default
_SECTION = "language_model"  # of knowledge.yaml
_CONNECT_S = 5.0
_TOKENS_PER_MESSAGE = 4  # roughly, that each message costs beside its content

RecordCall = Callable[[ModelCall], None]


@dataclass(slots=True)
class _CompletionRequest:
    """One completion on its way: its request, and what it took so far."""

    messages: Sequence[dict[str, str]]
    max_tokens: int
    deadline: float  # time.monotonic()
    started_s: float = field(default_factory=time.monotonic)
    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0

    @property
    def remaining_s(self) -> float:
        return self.deadline - time.monotonic()

    @property
    def estimated_prompt_tokens(self) -> int:
        """Tokens of the prompt."""
        return sum(_TOKENS_PER_MESSAGE + len(estimate_token_starts(one["content"])) for one in self.messages)


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

    def __init__(self, settings: LanguageModelSettings, *, record: RecordCall | None = None) -> None:
        """Raises `ConfigError`: base_url is no URL, or the key cannot be sent."""
        self._settings = settings
        self._section = ConfigSection(_SECTION, settings.model, "max_input_tokens")
        self._headers = build_auth_headers(settings.api_key, section=_SECTION)
        self._endpoint_name = (
            f"the language model at {format_url(parse_endpoint_url(settings.base_url, section=_SECTION))}"
        )
        self._record = record
        self._request_limiter = RateLimiter(settings.requests_per_minute)
        self._token_limiter = RateLimiter(settings.tokens_per_minute)
        self._dialect = RequestDialect()
        self._current_connection: _Connection | None = None
        self._paused: tuple[float, KnowledgeError] | None = None  # until time.monotonic(), and why

    @property
    def name(self) -> str:
        """The model, as the endpoint calls it."""
        return self._settings.model

    @property
    def max_input_tokens(self) -> int:
        """What the endpoint reads of one prompt."""
        return self._settings.max_input_tokens

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        max_tokens: int = DEFAULT_MAX_TOKENS,
        budget_s: float | None = None,
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
        if self._paused and time.monotonic() < self._paused[0]:
            raise type(self._paused[1])(str(self._paused[1]))
        sent = [{"role": one.role, "content": replace_surrogates(one.content)} for one in messages]
        deadline = float("inf") if budget_s is None else time.monotonic() + budget_s
        asking = _CompletionRequest(sent, max_tokens, deadline)
        try:
            async with asyncio.timeout(budget_s):
                return await self._complete_with_dialect(asking)
        except TimeoutError:
            raise LanguageModelUnavailable(
                f"{self._endpoint_name} took more than {budget_s} s: allow it more time, or use a faster model"
            ) from None
        finally:
            self._record_call(asking)

    async def aclose(self) -> None:
        """Close the connections, on the event loop that they belong to."""
        connected, self._current_connection = self._current_connection, None
        if connected:
            await connected.client.aclose()

    async def _complete_with_dialect(self, request: _CompletionRequest) -> Completion:
        """The completion, in the dialect that the model turns out to want."""
        while True:
            dialect = self._dialect
            try:
                return await self._complete_with_retries(request, dialect)
            except EndpointRefused as refusal:
                adapted = dialect.adapt_to(refusal)
                if adapted is None:
                    error = ModelError(f"{self._endpoint_name} {refusal}")
                    if not refusal.is_request_specific:
                        self._pause(error)
                    raise error from None
                self._dialect = adapted

    async def _complete_with_retries(
        self, request: _CompletionRequest, dialect: RequestDialect
    ) -> Completion:
        tries = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception_type(EndpointUnavailable),
            stop=lambda state: self._should_give_up(state, request),
            wait=compute_retry_wait_s,
            sleep=asyncio.sleep,
            reraise=True,
        )
        try:
            return await tries(self._complete_once, request, dialect)
        except EndpointUnavailable as trouble:
            asked = f" and asks to wait {trouble.retry_after_s:.0f} s" if trouble.retry_after_s else ""
            error = LanguageModelUnavailable(
                f"{self._endpoint_name} {trouble}{asked} (try {tries.statistics['attempt_number']} of "
                f"{self._settings.max_tries}): see whether it is up, or lower language_model.max_concurrent "
                "and requests_per_minute"
            )
            if isinstance(trouble.__cause__, httpx.ConnectError | httpx.ConnectTimeout):
                self._pause(error)
            raise error from None

    def _should_give_up(self, state: tenacity.RetryCallState, request: _CompletionRequest) -> bool:
        return (
            state.attempt_number >= self._settings.max_tries
            or read_retry_after_s(state) > MAX_RETRY_AFTER_S
            or state.upcoming_sleep >= request.remaining_s
        )

    async def _complete_once(self, request: _CompletionRequest, dialect: RequestDialect) -> Completion:
        await self._wait_for_rate_limit(request)
        connection = self._get_connection()
        async with connection.slots:
            response = await self._send(connection.client, request, dialect)
        try:
            answer = parse_response(response, self._section)
        except EndpointUnavailable as trouble:
            self._request_limiter.pause(min(trouble.retry_after_s, MAX_RETRY_AFTER_S))  # nobody asks before
            raise
        told = parse_billed_tokens(answer)
        if told:
            self._add_tokens(request, *told)
        said = parse_choice(answer)
        if not told:
            self._add_tokens(
                request, request.estimated_prompt_tokens, len(estimate_token_starts(said.raw_text))
            )
        return self._build_completion(request, said, estimated=not told)

    async def _wait_for_rate_limit(self, request: _CompletionRequest) -> None:
        """Wait until the rates per minute allow a request, unless that is longer than the budget."""
        tokens = request.estimated_prompt_tokens
        if (
            ahead_s := max(self._request_limiter.estimate_wait_s(), self._token_limiter.estimate_wait_s())
        ) >= request.remaining_s:
            raise LanguageModelUnavailable(
                f"{self._endpoint_name} is at its rate limit for another {ahead_s:.0f} s"
            )
        await asyncio.sleep(max(self._request_limiter.reserve(), self._token_limiter.reserve(tokens)))

    async def _send(
        self, client: httpx.AsyncClient, request: _CompletionRequest, dialect: RequestDialect
    ) -> httpx.Response:
        settings = self._settings
        body = {"model": settings.model, "messages": request.messages}
        body |= dialect.build_body(request.max_tokens, settings.reasoning_effort)
        request.requests += 1
        try:
            async with asyncio.timeout(settings.timeout_s):  # httpx bounds each step, not the whole
                return await client.post("chat/completions", json=body)
        except TimeoutError:
            raise EndpointUnavailable(f"took more than {settings.timeout_s} s") from None
        except httpx.TransportError as error:
            raise EndpointUnavailable(f"did not answer ({type(error).__name__})") from error

    def _add_tokens(self, request: _CompletionRequest, prompt_tokens: int, completion_tokens: int) -> None:
        request.prompt_tokens += prompt_tokens
        request.completion_tokens += completion_tokens

    def _build_completion(
        self, request: _CompletionRequest, choice: ChatChoice, *, estimated: bool
    ) -> Completion:
        return Completion(
            text=choice.text,
            prompt_tokens=request.prompt_tokens,
            completion_tokens=request.completion_tokens,
            seconds=time.monotonic() - request.started_s,
            cost=self._compute_cost(request),
            estimated=estimated,
            cut=choice.truncated,
        )

    def _compute_cost(self, request: _CompletionRequest) -> float:
        settings = self._settings
        return (
            request.prompt_tokens * settings.price_per_million_input_tokens
            + request.completion_tokens * settings.price_per_million_output_tokens
        ) / 1e6

    def _record_call(self, request: _CompletionRequest) -> None:
        if self._record and request.requests:
            self._record(
                ModelCall(
                    ended_at=datetime.now(UTC),
                    model=self.name,
                    requests=request.requests,
                    tokens=request.prompt_tokens + request.completion_tokens,
                    cost=self._compute_cost(request),
                    seconds=time.monotonic() - request.started_s,
                    account=get_current_account(),
                )
            )

    def _pause(self, error: KnowledgeError) -> None:
        self._paused = time.monotonic() + PAUSE_S, error

    def _get_connection(self) -> _Connection:
        """Of the running loop: connections cannot go from one to another."""
        loop = asyncio.get_running_loop()
        if self._current_connection is None or self._current_connection.loop is not loop:
            settings = self._settings
            client = httpx.AsyncClient(
                base_url=parse_endpoint_url(settings.base_url, section=_SECTION),
                headers=self._headers,
                timeout=httpx.Timeout(settings.timeout_s, connect=min(_CONNECT_S, settings.timeout_s)),
                verify=get_ssl_context(),
            )
            self._current_connection = _Connection(loop, client, asyncio.Semaphore(settings.max_concurrent))
        return self._current_connection

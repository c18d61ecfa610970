"""Completions from any endpoint that speaks OpenAI's `/chat/completions`: OpenAI, Ollama, vLLM, OpenRouter.

Neither keys nor texts are ever part of a message or a log.
API: https://platform.openai.com/docs/api-reference/chat/create
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import httpx2
import tenacity

from knowledge_pipeline import endpoints
from knowledge_pipeline.config.model import UnsetSecret
from knowledge_pipeline.config.settings import LanguageModelSettings
from knowledge_pipeline.errors import KnowledgeError, LanguageModelUnavailable, ModelError
from knowledge_pipeline.llm.model_calls import (
    Completion,
    Message,
    ModelCall,
    UsageAccount,
    compute_cost,
    current_account,
)
from knowledge_pipeline.text import estimate_token_starts, is_list, is_object, replace_surrogates

_THINKING = re.compile(r"\A\s*<(think|thinking)>.*?(</\1>|\Z)", re.DOTALL | re.IGNORECASE)
_END_OF_THINKING = re.compile(r"\A.*</think>", re.DOTALL)  # templates may put the start into the prompt


@dataclass(frozen=True, slots=True)
class ChatChoice:
    """One choice of a response."""

    text: str  # without thinking
    raw_text: str  # with it: it is billed
    truncated: bool  # `max_tokens` were reached


@dataclass(frozen=True, slots=True)
class RequestDialect:
    """Which parameters a model takes: what one requires, another refuses.

    Models that think before they answer take `max_completion_tokens` instead of `max_tokens`, and no
    temperature.
    """

    limit_key: str = "max_tokens"
    temperature: bool = True
    effort: bool = True

    def adapt_to(self, refusal: endpoints.EndpointRefused) -> RequestDialect | None:
        """The dialect to try next; None where the refusal is about something else."""
        if self.limit_key == "max_tokens" and refusal.is_about_parameter("max_completion_tokens"):
            return replace(self, limit_key="max_completion_tokens")
        if self.temperature and refusal.is_about_parameter("temperature"):
            return replace(self, temperature=False)
        if self.effort and refusal.is_about_parameter("reasoning"):
            return replace(self, effort=False)
        return None


def parse_choice(payload: dict[str, Any]) -> ChatChoice:
    """The first choice; its text may be empty.

    Raises `EndpointUnavailable`: there is no choice, or it has no text.
    """
    try:
        choice = payload["choices"][0]
        content = choice["message"]["content"]
    except (KeyError, IndexError, TypeError):
        raise endpoints.EndpointUnavailable("answered without a message") from None
    if is_list(content):  # some endpoints send parts
        content = "".join(str(part.get("text", "")) for part in content if is_object(part))
    if not isinstance(content, str | None):
        raise endpoints.EndpointUnavailable("answered with a message that is not text")
    text = content or ""
    shown = _END_OF_THINKING.sub("", _THINKING.sub("", text)).strip()
    return ChatChoice(shown, text, choice.get("finish_reason") == "length")


def parse_billed_tokens(payload: dict[str, Any]) -> tuple[int, int] | None:
    """Prompt and completion tokens that the response bills; None where it lacks either."""
    usage = payload.get("usage")
    if not is_object(usage):
        return None
    prompt, completion = usage.get("prompt_tokens"), usage.get("completion_tokens")
    if not isinstance(prompt, int) or not isinstance(completion, int):
        return None
    return (prompt, completion) if prompt > 0 <= completion else None


PAUSE_S = 30.0  # an endpoint that is down, or refuses everything, is left alone for so long
DEFAULT_MAX_TOKENS = 1000  # of an answer and the thinking before it
_CONNECT_S = 5.0
_TOKENS_PER_MESSAGE = 4  # roughly what each message costs in addition to its content

RecordCall = Callable[[ModelCall], None]
AdmitCall = Callable[[UsageAccount], Awaitable[None]]
"""Raises `LanguageModelUnavailable` for an account whose budget is spent."""


@dataclass(slots=True)
class _CompletionRequest:
    """One completion under way: what is sent, and what it took so far."""

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

    def compute_cost(self, settings: LanguageModelSettings) -> float:
        return compute_cost(settings, self.prompt_tokens, self.completion_tokens)


@dataclass(frozen=True, slots=True)
class _Connection:
    loop: asyncio.AbstractEventLoop
    client: httpx2.AsyncClient
    slots: asyncio.Semaphore


class LanguageModel:
    """One model of one endpoint; for one event loop at a time.

    Connects at the first completion. `admit` is awaited before each one, and `record` is called after each,
    answered or not.
    """

    def __init__(
        self,
        settings: LanguageModelSettings,
        *,
        record: RecordCall | None = None,
        admit: AdmitCall | None = None,
    ) -> None:
        """Raises `ConfigError`: base_url is not a URL, or the key cannot be sent."""
        self._paused: tuple[float, KnowledgeError] | None = None  # until time.monotonic(), and why
        if isinstance(settings.api_key, UnsetSecret):
            self._paused = float("inf"), LanguageModelUnavailable(settings.api_key.problem)
        self._settings = settings
        section = endpoints.ConfigSection("language_model", settings.model, "max_input_tokens")
        self._endpoint = endpoints.Endpoint(
            settings, section, "the language model at", LanguageModelUnavailable
        )
        self._record = record
        self._admit = admit
        self._dialect = RequestDialect()
        self._current_connection: _Connection | None = None

    @property
    def name(self) -> str:
        """The model, as the endpoint calls it."""
        return self._settings.model

    @property
    def max_input_tokens(self) -> int:
        """How much the endpoint reads of one prompt."""
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
            LanguageModelUnavailable: no answer within the tries, the rates or the budget of time; or the
                account's budget is spent.
            ModelError: the endpoint refuses; the message says what to fix.
        """
        if self._paused and time.monotonic() < self._paused[0]:
            raise type(self._paused[1])(str(self._paused[1]))
        if self._admit:
            await self._admit(current_account.get())
        sent = [{"role": it.role, "content": replace_surrogates(it.content)} for it in messages]
        deadline = float("inf") if budget_s is None else time.monotonic() + budget_s
        request = _CompletionRequest(sent, max_tokens, deadline)
        try:
            async with asyncio.timeout(budget_s):
                return await self._complete_with_dialect(request)
        except TimeoutError:
            raise LanguageModelUnavailable(
                f"{self._endpoint.name} took more than {budget_s} s: "
                "allow it more time, or use a faster model"
            ) from None
        finally:
            self._record_call(request)

    async def aclose(self) -> None:
        """Close the connections; call it on their event loop."""
        connected, self._current_connection = self._current_connection, None
        if connected:
            await connected.client.aclose()

    async def _complete_with_dialect(self, request: _CompletionRequest) -> Completion:
        while True:
            dialect = self._dialect
            try:
                return await self._complete_with_retries(request, dialect)
            except endpoints.EndpointRefused as refusal:
                adapted = dialect.adapt_to(refusal)
                if adapted is None:
                    error = ModelError(f"{self._endpoint.name} {refusal}")
                    if not refusal.is_request_specific:
                        self._paused = time.monotonic() + PAUSE_S, error
                    raise error from None
                self._dialect = adapted

    async def _complete_with_retries(
        self, request: _CompletionRequest, dialect: RequestDialect
    ) -> Completion:
        max_tries = self._settings.max_tries
        tries = tenacity.AsyncRetrying(
            retry=endpoints.RETRY_IF_UNAVAILABLE,
            stop=tenacity.stop_any(
                tenacity.stop_after_attempt(max_tries),
                endpoints.StopWaiting(endpoints.MAX_RETRY_AFTER_S, lambda: request.remaining_s),
            ),
            wait=endpoints.compute_retry_wait_s,
            sleep=asyncio.sleep,
            reraise=True,
        )
        try:
            return await tries(self._complete_once, request, dialect)
        except endpoints.EndpointUnavailable as failure:
            attempt = tries.statistics["attempt_number"]
            error = self._endpoint.build_error(failure, attempt=attempt, max_tries=max_tries)
            if isinstance(failure.__cause__, httpx2.ConnectError | httpx2.ConnectTimeout):
                self._paused = time.monotonic() + PAUSE_S, error
            raise error from None

    async def _complete_once(self, request: _CompletionRequest, dialect: RequestDialect) -> Completion:
        settings, texts = self._settings, (message["content"] for message in request.messages)
        prompt_tokens = sum(_TOKENS_PER_MESSAGE + len(estimate_token_starts(text)) for text in texts)
        await asyncio.sleep(self._endpoint.reserve(prompt_tokens, max_wait_s=request.remaining_s))
        body: dict[str, Any] = {"model": settings.model, "messages": request.messages}
        body[dialect.limit_key] = request.max_tokens
        body |= {"temperature": 0} if dialect.temperature else {}
        if dialect.effort and settings.reasoning_effort:
            body["reasoning_effort"] = settings.reasoning_effort
        connection = self._get_connection()
        async with connection.slots:
            request.requests += 1
            try:
                async with asyncio.timeout(settings.timeout_s):  # httpx2 bounds each step, not the whole
                    response = await connection.client.post("chat/completions", json=body)
            except TimeoutError:
                raise endpoints.EndpointUnavailable(f"took more than {settings.timeout_s} s") from None
            except httpx2.TransportError as error:
                raise endpoints.EndpointUnavailable(f"did not answer ({type(error).__name__})") from error
        payload = self._endpoint.parse(response)
        billed = parse_billed_tokens(payload)
        if billed:  # even where the response has no message
            request.prompt_tokens += billed[0]
            request.completion_tokens += billed[1]
        choice = parse_choice(payload)
        if not billed:
            request.prompt_tokens += prompt_tokens
            request.completion_tokens += len(estimate_token_starts(choice.raw_text))
        return Completion(
            choice.text, request.prompt_tokens, request.completion_tokens,
            seconds=time.monotonic() - request.started_s, cost=request.compute_cost(settings),
            estimated=not billed, cut=choice.truncated,
        )  # fmt: skip

    def _record_call(self, request: _CompletionRequest) -> None:
        if self._record and request.requests:
            prompt_tokens, completion_tokens = request.prompt_tokens, request.completion_tokens
            self._record(ModelCall(
                datetime.now(UTC), self.name, request.requests, prompt_tokens + completion_tokens,
                cost=request.compute_cost(self._settings), seconds=time.monotonic() - request.started_s,
                account=current_account.get(), input_tokens=prompt_tokens, output_tokens=completion_tokens,
            ))  # fmt: skip

    def _get_connection(self) -> _Connection:
        """The connection of the running loop: none can go from one loop to another."""
        loop = asyncio.get_running_loop()
        if self._current_connection is None or self._current_connection.loop is not loop:
            settings = self._settings
            client = httpx2.AsyncClient(
                base_url=self._endpoint.url,
                headers=self._endpoint.headers,
                timeout=httpx2.Timeout(settings.timeout_s, connect=min(_CONNECT_S, settings.timeout_s)),
                verify=endpoints.get_ssl_context(),
            )
            self._current_connection = _Connection(loop, client, asyncio.Semaphore(settings.max_concurrent))
        return self._current_connection

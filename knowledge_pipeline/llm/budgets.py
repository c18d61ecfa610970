"""Budgets of language models: what was spent of them, by the log and by calls that it does not have yet.

The log is read anew after `REREAD_S`, or up to a minute where that takes long. What other processes spend in
the meantime, and what calls under way cost, is not known: by so much a budget may be exceeded.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Literal

from knowledge_pipeline.config.settings import BudgetSettings
from knowledge_pipeline.errors import KnowledgeError, LanguageModelUnavailable
from knowledge_pipeline.llm.model_calls import ModelCall, UsageAccount
from knowledge_pipeline.llm.spending import Spending, read_spending
from knowledge_pipeline.store.lake import Lake

REREAD_S = 5.0
_MAX_READ_SHARE = 0.05  # of the time: a log that takes long to read is read less often
_LATE = timedelta(minutes=1)
_MAX_PAUSES = 12  # and still once a minute

_log = logging.getLogger(__name__)

Level = Literal["ok", "warn", "stop"]
Payer = tuple[str | None, str | None]
"""The tenant, of projects and sessions alone, and the name; of the total neither."""


@dataclass(frozen=True, slots=True)
class BudgetState:
    """What one payer has spent of one budget in the current window."""

    budget: BudgetSettings
    tenant: str | None  # of a project or session
    name: str | None  # of the tenant, project or session; None: the total, or those without one
    window_start: date
    spent: float

    @property
    def level(self) -> Level:
        """Whether a limit is reached."""
        if self.budget.stop_at is not None and self.spent >= self.budget.stop_at:
            return "stop"
        return "warn" if self.budget.warn_at is not None and self.spent >= self.budget.warn_at else "ok"

    def describe(self) -> str:
        """What was spent, and what happens, in a sentence."""
        payer = self.budget.per if self.name is None else f"{self.budget.per} {self.name!r}"
        if self.tenant and self.budget.per != "tenant":
            payer += f" of the tenant {self.tenant!r}"
        window = self.window_start.strftime("%Y-%m-%d" if self.budget.window == "day" else "%Y-%m")
        limit = self.budget.stop_at if self.budget.stop_at is not None else self.budget.warn_at
        sentence = f"models cost {self.spent:.4g} of {limit:.4g} for the {payer} in {window}"
        if self.level == "stop":
            return f"{sentence}: the language model is not called before the next {self.budget.window}"
        return f"{sentence}; a warning was set at {self.budget.warn_at:.4g}"

    def describe_to_caller(self) -> str:
        """The same without the amounts, which are not every caller's."""
        payer = "all callers" if self.budget.per == "total" else f"the {self.budget.per} {self.name!r}"
        if self.level == "stop":
            when = f"the next {self.budget.window} begins"
            return f"the budget of {payer} is spent: the language model is not called before {when}"
        return f"most of the budget of {payer} for this {self.budget.window} is spent"

    @property
    def key(self) -> tuple[object, ...]:
        """Names the payer, the window and the level: what is said once."""
        return self.budget, self.tenant, self.name, self.window_start, self.level


class Budgets:
    """The budgets of one store, for one process. Threads may share it."""

    def __init__(self, settings: Sequence[BudgetSettings], lake: Lake, *, reread_s: float = REREAD_S) -> None:
        self._settings, self._lake, self._reread_s = settings, lake, reread_s
        self._unlogged: list[ModelCall] = []
        self._sums: list[dict[Payer, float]] = [{} for _ in settings]
        self._read_on: date | None = None  # None: never
        self._next_read_s = float("-inf")
        self._lock = threading.Lock()  # of the attributes
        self._reading = threading.Lock()
        self._logged, self._answered = set[object](), set[object]()

    def note(self, call: ModelCall) -> None:
        """Count a call of this process at once; the log has it seconds later."""
        if call.cost:
            with self._lock:
                self._unlogged.append(call)

    async def require(self, account: UsageAccount) -> None:
        """Pass if the account may spend more.

        Raises:
            LanguageModelUnavailable: a budget is spent, or nobody knows whether one is.
        """
        for state in await self.list_states(account):
            self._warn_once(state)
            if state.level == "stop":
                raise LanguageModelUnavailable(state.describe_to_caller())

    async def list_problems(self, account: UsageAccount, *, is_refused: bool) -> dict[str, str]:
        """What an answer says of budgets: that one is spent; once a window, that one is nearly."""
        try:
            states = await self.list_states(account)
        except LanguageModelUnavailable as error:
            return {"budget": str(error)} if is_refused else {}
        if is_refused and (spent := [state for state in states if state.level == "stop"]):
            return {"budget": spent[0].describe_to_caller()}
        for state in states:
            self._warn_once(state)
            if state.level == "warn" and self._is_first(self._answered, state):
                return {"budget_warning": state.describe_to_caller()}
        return {}

    async def describe_reached(self, account: UsageAccount) -> str | None:
        """The account's budget that is spent, or else nearly; that nobody knows; None: neither."""
        try:
            states = await self.list_states(account)
        except LanguageModelUnavailable as error:
            return str(error)
        by_level = {state.level: state for state in states}
        state = by_level.get("stop") or by_level.get("warn")
        return state.describe_to_caller() if state else None

    async def list_states(self, account: UsageAccount) -> list[BudgetState]:
        """The budgets that an account pays from.

        Raises:
            LanguageModelUnavailable: the log of model calls was never read, and cannot be.
        """
        await asyncio.to_thread(self._reread_if_due)
        now, states = datetime.now(UTC), list[BudgetState]()
        with self._lock:
            calls, logged = list(self._unlogged), self._sums
        unlogged = list(map(_to_spending, calls))
        for budget, sums in zip(self._settings, logged, strict=True):
            if payer := find_payer(budget, account):
                spent = sums.get(payer, 0.0) + sum_spending(budget, unlogged, now).get(payer, 0.0)
                states.append(BudgetState(budget, *payer, start_of_window(budget, now), spent))
        return states

    def _reread_if_due(self) -> None:
        if not self._reading.acquire(blocking=self._read_on is None):
            return  # another thread reads, and what was read before is good enough until then
        try:
            now = datetime.now(UTC)
            if time.monotonic() >= self._next_read_s or now.date() != self._read_on:
                self._reread(now)
        finally:
            self._reading.release()

    def _reread(self, now: datetime) -> None:
        with self._lock:
            oldest = min((call.ended_at for call in self._unlogged), default=now)
        recent = min(oldest, now - _LATE)  # a call that ends while the log is read may be in it
        started_s, month = time.monotonic(), now.date().replace(day=1)
        try:
            spendings, logged = read_spending(self._lake, now, recent)
        except (KnowledgeError, OSError, RuntimeError, ValueError) as error:
            if self._read_on is None:
                reason = f"the log of model calls cannot be read ({type(error).__name__})"
                raise LanguageModelUnavailable(f"{reason}, so that budgets are unknown") from error
            _log.warning("budgets are as they were: the log of model calls cannot be read")
        else:
            sums = [sum_spending(budget, spendings, now) for budget in self._settings]
            with self._lock:  # forget calls that the log has, and what was of a former month
                self._sums = sums
                others = (call for call in self._unlogged if call.ended_at not in logged)
                self._unlogged = [call for call in others if call.ended_at.date() >= month]
                if self._read_on and self._read_on < month:
                    self._logged.clear()
                    self._answered.clear()
            self._read_on = now.date()
        took_s = time.monotonic() - started_s
        pause_s = max(self._reread_s, min(took_s / _MAX_READ_SHARE, _MAX_PAUSES * self._reread_s))
        self._next_read_s = time.monotonic() + pause_s

    def _warn_once(self, state: BudgetState) -> None:
        if state.level != "ok" and self._is_first(self._logged, state):
            _log.warning("%s", state.describe())

    def _is_first(self, seen: set[object], state: BudgetState) -> bool:
        with self._lock:
            is_first = state.key not in seen
            seen.add(state.key)
        return is_first


def _to_spending(call: ModelCall) -> Spending:
    day, of, is_reported = call.ended_at.date(), call.account, call.report is not None
    return Spending(day, of.tenant, of.session, of.project, is_reported, call.cost)


def list_reached(
    budgets: Iterable[BudgetSettings], spendings: Sequence[Spending], now: datetime
) -> list[BudgetState]:
    """Of all payers, those that have reached a limit of a budget."""
    states = (
        BudgetState(budget, *payer, start_of_window(budget, now), spent)
        for budget in budgets
        for payer, spent in sum_spending(budget, spendings, now).items()
    )
    return [state for state in states if state.level != "ok"]


def sum_spending(budget: BudgetSettings, spendings: Iterable[Spending], now: datetime) -> dict[Payer, float]:
    """What each payer of a budget has spent in the current window."""
    sums: dict[Payer, float] = {}
    start = start_of_window(budget, now)
    for spending in spendings:
        counts = spending.day >= start and (budget.reported or not spending.is_reported)
        if counts and (payer := find_payer(budget, spending)):
            sums[payer] = sums.get(payer, 0.0) + spending.cost
    return sums


def find_payer(budget: BudgetSettings, of: UsageAccount | Spending) -> Payer | None:
    """The tenant and the name that pay from a budget; None: it is not about them."""
    if budget.per == "total":
        return None, None
    name: str | None = getattr(of, budget.per)
    if name is None or budget.name not in (None, name):
        return None
    return None if budget.per == "tenant" else of.tenant, name


def start_of_window(budget: BudgetSettings, now: datetime) -> date:
    """The first day of the day or month of a time, in UTC."""
    return now.date() if budget.window == "day" else now.date().replace(day=1)

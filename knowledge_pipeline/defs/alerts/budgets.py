"""Reports budgets of models that are nearly or wholly spent: each once in its day or month."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime

import dagster as dg

from knowledge_pipeline.defs.alerts.channels import Alert
from knowledge_pipeline.defs.alerts.sensor import send_to_channels
from knowledge_pipeline.defs.failures import skip_on_config_error
from knowledge_pipeline.defs.names import PLAIN, Names
from knowledge_pipeline.defs.resources import ProjectResource
from knowledge_pipeline.llm.budgets import BudgetState, list_reached
from knowledge_pipeline.store.spending import read_spending

_MAX_SHOWN = 20


def build_budgets_sensor(names: Names = PLAIN) -> dg.SensorDefinition:
    """The sensor of a knowledge base that has budgets; its cursor knows what was reported."""

    @dg.sensor(  # pyright: ignore[reportUnknownMemberType]  # Dagster's bare PathLike
        name=names.definition("spent_budgets"),
        minimum_interval_seconds=300,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Reports budgets that are nearly or wholly spent in the log, and in Slack and by e-mail "
        "if knowledge.yaml says so; each once in its day or month.",
    )
    @names.bind
    @skip_on_config_error("budgets are not looked at")
    def spent_budgets(context: dg.SensorEvaluationContext, project: ProjectResource) -> dg.SensorResult:
        settings, now = project.load_settings(), datetime.now(UTC)
        budgets = settings.costs.budgets
        reached = list_reached(budgets, read_spending(project.open_lake(), now)[0], now) if budgets else []
        known: list[str] = json.loads(context.cursor or "[]")
        new = [state for state in reached if _key_of(state) not in known]
        still = [key for key in map(_key_of, reached) if key in known]
        if not new:
            reason = "no budget is spent that was not reported"
            return dg.SensorResult(skip_reason=reason, cursor=json.dumps(still))
        alert = _build_alert(new)
        context.log.warning(f"{alert.title}\n{alert.text}")
        if send_to_channels(context, alert, settings.alerts):
            still += map(_key_of, new)
        return dg.SensorResult(skip_reason=f"{len(new)} budgets reported", cursor=json.dumps(still))

    return spent_budgets


def _build_alert(states: Sequence[BudgetState]) -> Alert:
    sentences = [state.describe() for state in states[:_MAX_SHOWN]]
    if len(states) > _MAX_SHOWN:
        sentences.append(f"and {len(states) - _MAX_SHOWN} others: `knowledge costs` lists them")
    return Alert("Knowledge pipeline: a budget of models is spent", "\n".join(sentences))


def _key_of(state: BudgetState) -> str:
    """The payer, the window and the level: what is reported once."""
    budget = state.budget
    key = (budget.per, budget.window, budget.warn_at, budget.stop_at, state.tenant, state.name)
    return json.dumps([*key, str(state.window_start), state.level])

"""`costs`: what models cost, by session, project or another account; `costs report`: a call of one's own."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Literal

from typer import Option

from knowledge_pipeline.cli.session import Session, example

Account = Literal["session", "project", "on_behalf_of", "tenant", "model", "source"]


@example("""
    knowledge costs
    knowledge costs --by session --days 7
    knowledge costs --by on_behalf_of --json
""")
def costs(
    session: Session,
    by: Annotated[Account, Option("--by", help="What to sum up by.")] = "project",
    days: Annotated[int, Option(metavar="N", help="How many days back.", min=1, max=3660)] = 30,
) -> None:
    """Show what models have cost, and which budgets are spent.

    Calls of embedding models, of the language model, and those that agents report are added up.
    `--for-session`, `--for-project` and `--on-behalf-of` before a command label what it costs.
    """
    from knowledge_pipeline.llm.budgets import list_reached
    from knowledge_pipeline.store.spending import read_costs, read_spending

    now = datetime.now(UTC)
    rows = read_costs(session.lake, now - timedelta(days=days), by)
    budgets = session.settings_without_secrets.costs.budgets
    reached = list_reached(budgets, read_spending(session.lake, now)[0], now) if budgets else []
    stated = [
        {
            **{"per": state.budget.per, "name": state.name, "tenant": state.tenant},
            **{"window": state.budget.window, "since": str(state.window_start), "level": state.level},
            **{"spent": state.spent, "warn_at": state.budget.warn_at, "stop_at": state.budget.stop_at},
        }
        for state in reached
    ]
    session.screen.print_json({"by": by, "days": days, "costs": rows, "budgets_reached": stated})
    if not rows:
        session.screen.print_text(f"No model was called in the last {days} days.")
    numbers = ("calls", "reported", "errors", "tokens", "cost", "seconds")
    shown = [{**row, "cost": f"{row['cost']:.4f}"} for row in rows]
    session.screen.print_table(shown, right_aligned=numbers)
    for state in reached:
        session.screen.print_text(f"{state.level}: {state.describe()}")


@example("""
    knowledge --for-session fix-42 costs report --provider openai --model gpt-4o-mini \\
        --input-tokens 1200 --output-tokens 300
    knowledge costs report --provider anthropic --model some-model --cost 0.02 --error rate_limited
""")
def report(
    session: Session,
    provider: Annotated[str, Option(metavar="NAME", help="Whose model it is.")],
    model: Annotated[str, Option(metavar="NAME", help="The model, as `costs.prices` names it.")],
    input_tokens: Annotated[int, Option(metavar="N", help="Tokens of the prompt.", min=0)] = 0,
    output_tokens: Annotated[int, Option(metavar="N", help="Tokens of the response.", min=0)] = 0,
    cost: Annotated[
        float | None, Option(metavar="X", help="What it cost.  [default: by costs.prices, or else 0]", min=0)
    ] = None,
    seconds: Annotated[float, Option(metavar="S", help="How long it took.", min=0)] = 0.0,
    error: Annotated[str | None, Option(metavar="KIND", help="The kind of error that it ended in.")] = None,
    prompt_file: Annotated[
        Path | None, Option(metavar="PATH", help="The prompt; kept only if costs.keep_texts is on.")
    ] = None,
    response_file: Annotated[Path | None, Option(metavar="PATH", help="The same for the response.")] = None,
) -> None:
    """Report a call of a language model that a program of yours made."""
    from knowledge_pipeline.contract.requests import ModelCallRequest

    request = ModelCallRequest(
        provider,
        model,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        cost=cost,
        seconds=seconds,
        error=error,
        prompt=_read_text(prompt_file, "--prompt-file"),
        response=_read_text(response_file, "--response-file"),
    )
    with session.open_knowledge_base(session.settings_without_secrets) as base:
        recorded = base.report_model_call(request)
    session.screen.print_json(recorded.as_json())
    session.screen.print_text(f"Recorded: cost {recorded.cost:.6g}.")
    if recorded.budget:
        session.screen.print_text(recorded.budget)


def _read_text(path: Path | None, option: str) -> str | None:
    from knowledge_pipeline.errors import InvalidQuery

    if path is None:
        return None
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise InvalidQuery(
            f"{option} {path} cannot be read: {error.strerror or type(error).__name__}"
        ) from error


COMMANDS = (report,)

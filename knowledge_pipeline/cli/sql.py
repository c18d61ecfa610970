"""`sql`: the models of dbt_like_sql; `costs` and `costs report`: what language and embedding models cost."""

from __future__ import annotations

import csv
import io
import math
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer
from typer import Argument, Option

from knowledge_pipeline.cli.exit_codes import FAILED
from knowledge_pipeline.cli.session import Session, WrongUsage, example
from knowledge_pipeline.errors import ConfigError, InvalidQuery, KnowledgeError

if TYPE_CHECKING:
    import pyarrow as pa

    from knowledge_pipeline.cli.screen import Screen
    from knowledge_pipeline.sql_models.model import Model
    from knowledge_pipeline.sql_models.run import SqlResult


def _complete_model_names(context: typer.Context, incomplete: str) -> list[str]:
    from knowledge_pipeline.sql_models.files import load_models

    del context
    with suppress(KnowledgeError, OSError):
        return [model.name for model in load_models() if model.name.startswith(incomplete)]
    return []


@example("""
    knowledge sql
    knowledge sql stale_sources
    knowledge sql cost_by_source
    knowledge sql freshness --csv > freshness.csv
    knowledge sql document_links --show
    knowledge sql --test
    knowledge sql --query "select source, count(*) as n from document_links group by source"
""")
def sql(
    session: Session,
    model: Annotated[
        str | None, Argument(metavar="MODEL", help="The model to run.", autocompletion=_complete_model_names)
    ] = None,
    query: Annotated[
        str | None, Option(metavar="SELECT", help="Run this select over models and raw tables.")
    ] = None,
    show: Annotated[bool, Option("--show", help="Print the model's SQL, and do not run it.")] = False,
    test: Annotated[
        bool, Option("--test", help="Run the test MODEL, or all; exit with 1 if one of them fails.")
    ] = False,
    limit: Annotated[int, Option(metavar="N", help="Rows to print; 0: all.", min=0)] = 100,
    as_csv: Annotated[bool, Option("--csv", help="Print CSV with a header line.")] = False,
) -> None:
    """Answer questions about the pipeline: cost, freshness, duplicates, links, quality.

    MODEL is one of the SQL models in dbt_like_sql, and runs on the current store; without
    one, the models are listed. Nothing is written. A --query may read the models and the
    raw tables below them; it cannot reach files or the network.
    """
    from knowledge_pipeline.sql_models import run
    from knowledge_pipeline.sql_models.files import load_models, select_required_models

    if model is not None and query is not None:
        raise WrongUsage("give a MODEL or --query, not both")
    if show and model is None:
        raise WrongUsage("--show needs a MODEL")
    if test and (show or as_csv or query is not None):
        raise WrongUsage("--test goes with a MODEL, --json, or nothing")
    if as_csv and session.as_json:
        raise WrongUsage("give --csv or --json, not both")
    try:
        session.config_path  # noqa: B018 - raises where there is none
    except ConfigError:  # the others can be listed
        own_folders: tuple[Path, ...] = ()
    else:
        own_folders = session.settings.sql_models.folders
    loaded = load_models(own_folders=own_folders)
    runs = query is not None or test or (model and not show)
    sources = load_configured_sources(session) if runs else None
    screen = session.screen
    if test:
        _run_tests(session, loaded, model, sources)
    elif query is not None:
        answer = run.run_query(session.lake, loaded, query, limit=limit or None, sources=sources)
        _show_rows(screen, answer, as_csv=as_csv)
    elif model is None:
        _show_models(screen, loaded)
    elif show:
        chosen = select_required_models(loaded, [model])[-1]
        columns = {name: {"type": c.type, "comment": c.comment} for name, c in chosen.columns.items()}
        screen.print_json(
            {"model": chosen.name, "layer": chosen.layer, "sql": chosen.sql, "columns": columns}
        )
        screen.print_text(chosen.sql)
    else:
        answer = run.query_model(session.lake, loaded, model, limit=limit or None, sources=sources)
        _show_rows(screen, answer, as_csv=as_csv)


def _run_tests(session: Session, models: list[Model], name: str | None, sources: pa.Table | None) -> None:
    """Run one test, or all, and print what each found; whatever fails ends the program with 1."""
    from knowledge_pipeline.sql_models import run

    tests = [model.name for model in models if model.layer == "tests" and name in (None, model.name)]
    if not tests:
        raise InvalidQuery(f"{name} is no test: `knowledge sql` lists them, in the layer tests")
    done = list(run.refresh(session.lake, models, tests, sources=sources))
    outcomes = [
        {
            "test": ran.model.name,
            "outcome": "passed" if not ran.rows else "failed" if ran.has_failed else "warned",
            "rows": ran.rows,
            "about": ran.model.about,
        }
        for ran in done
    ]
    session.screen.print_json({"tests": outcomes})
    session.screen.print_table(outcomes, right_aligned=("rows",))
    if failed := [ran.describe_failure() for ran in done if ran.has_failed]:
        session.screen.print_note("; ".join(failed))
        raise typer.Exit(FAILED)


Account = Literal["session", "project", "on_behalf_of", "tenant", "token", "model", "source"]


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

    Calls of embedding models, also for questions, of the language model, and those that agents report are
    added up.
    `--for-session`, `--for-project` and `--on-behalf-of` before a command label what it costs.
    """
    from knowledge_pipeline.llm.budgets import list_reached
    from knowledge_pipeline.llm.spending import read_costs, read_spending

    now = datetime.now(UTC)
    rows = read_costs(session.lake, now - timedelta(days=days), by)
    budgets = session.settings.costs.budgets
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
    with session.open_knowledge_base() as base:
        recorded = base.report_model_call(request)
    session.screen.print_json(recorded.as_json())
    session.screen.print_text(f"Recorded: cost {recorded.cost:.6g}.")
    if recorded.budget:
        session.screen.print_text(recorded.budget)


COMMANDS = (report,)


def _read_text(path: Path | None, option: str) -> str | None:
    if path is None:
        return None
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise InvalidQuery(
            f"{option} {path} cannot be read: {error.strerror or type(error).__name__}"
        ) from error


def load_configured_sources(session: Session) -> pa.Table:
    """The sources as they are configured now, for `raw_sources`."""
    from knowledge_pipeline.sql_models.configured_sources import build_configured_sources
    from knowledge_pipeline.stages.code_versions import compute_code_versions

    settings = session.settings
    return build_configured_sources(settings, session.config_path, compute_code_versions)


def _show_models(screen: Screen, models: list[Model]) -> None:
    rows = [
        {"model": model.name, "layer": model.layer, "answers": model.answers, "about": model.about}
        for layer in ("marts", "intermediate", "staging", "tests")
        for model in sorted(models, key=attrgetter("name"))
        if model.layer == layer
    ]
    screen.print_json({"models": rows})
    screen.print_table(
        [
            {"model": row["model"], "layer": row["layer"], "answers": row["answers"] or row["about"]}
            for row in rows
        ]
    )


def _show_rows(screen: Screen, answer: SqlResult, *, as_csv: bool) -> None:
    import pyarrow as pa

    table, types = cast("Any", answer).rows, cast("Any", pa.types)
    rows: list[dict[str, Any]] = table.to_pylist()
    if screen.as_json:
        columns = [{"name": field.name, "type": str(field.type)} for field in table.schema]
        plain = [{name: _to_json_value(value) for name, value in row.items()} for row in rows]
        screen.print_json({"columns": columns, "rows": plain, "total": answer.total})
    elif as_csv:
        written = io.StringIO()
        writer = csv.writer(written, lineterminator="\n")
        writer.writerow(table.schema.names)
        values = [[_to_json_value(value) for value in column.to_pylist()] for column in table.columns]
        writer.writerows(zip(*values, strict=True))
        screen.print_text(written.getvalue().removesuffix("\n"))
    elif rows:
        cells = [{name: _format_cell(value) for name, value in row.items()} for row in rows]
        numeric = (types.is_integer, types.is_floating, types.is_decimal)
        numbers = [field.name for field in table.schema if any(is_(field.type) for is_ in numeric)]
        screen.print_table(cells, right_aligned=numbers)
    else:
        screen.print_note("No rows.")
    if len(rows) < answer.total:
        screen.print_note(f"The first {len(rows):,} of {answer.total:,} rows: --limit 0 prints all.")


def _to_json_value(value: Any) -> Any:
    """A JSON value: ISO times, and None for NaN and infinity. `Any`: any value of DuckDB."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value.isoformat() if isinstance(value, date) else value  # a datetime is a date, too


def _format_cell(value: Any) -> Any:
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    return f"{value:,.6g}" if isinstance(value, float) else value

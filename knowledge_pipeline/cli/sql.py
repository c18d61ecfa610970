"""`sql`: the models of dbt_like_sql, listed, shown, run, and asked."""

from __future__ import annotations

import csv
import io
import math
from contextlib import suppress
from datetime import date, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from knowledge_pipeline.cli.session import Session, WrongUsage, example

if TYPE_CHECKING:
    import pyarrow as pa

    from knowledge_pipeline.sql_models.model import Model
    from knowledge_pipeline.sql_models.run import SqlResult


def complete_model_names(context: typer.Context, incomplete: str) -> list[str]:
    """Names of models, for shell completion."""
    from knowledge_pipeline.errors import KnowledgeError
    from knowledge_pipeline.sql_models.files import load_models

    del context
    with suppress(KnowledgeError, OSError):
        return [model.name for model in load_models() if model.name.startswith(incomplete)]
    return []


@example("""
    knowledge sql
    knowledge sql cost_by_source
    knowledge sql freshness --csv > freshness.csv
    knowledge sql document_links --show
    knowledge sql --query "select source, count(*) as n from document_links group by source"
""")
def sql(
    session: Session,
    model: Annotated[
        str | None,
        typer.Argument(metavar="MODEL", help="The model to run.", autocompletion=complete_model_names),
    ] = None,
    query: Annotated[
        str | None,
        typer.Option("--query", metavar="SELECT", help="Run this select over models and raw tables."),
    ] = None,
    show: Annotated[bool, typer.Option("--show", help="Print the model's SQL, and do not run it.")] = False,
    limit: Annotated[int, typer.Option("--limit", metavar="N", help="Rows to print; 0: all.", min=0)] = 100,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV with a line of headings.")] = False,
) -> None:
    """Answer questions about the pipeline: cost, freshness, duplicates, links, quality.

    MODEL is one of the SQL models in dbt_like_sql, which are run over the store as it is
    now; without one, they are listed. Nothing is written. A --query reads the models and
    the raw tables that they read; it reaches no file and no network.
    """
    from knowledge_pipeline.sql_models import run
    from knowledge_pipeline.sql_models.files import load_models, select_required_models

    if model is not None and query is not None:
        raise WrongUsage("give a MODEL or --query, not both")
    if show and model is None:
        raise WrongUsage("--show needs a MODEL")
    if as_csv and session.as_json:
        raise WrongUsage("give --csv or --json, not both")
    loaded = load_models()
    if query is not None:
        _show_rows(session, run.run_query(session.lake, loaded, query, limit=limit or None), as_csv=as_csv)
    elif model is None:
        _show_models(session, loaded)
    elif show:
        _show_sql(session, select_required_models(loaded, [model])[-1])
    else:
        _show_rows(session, run.query_model(session.lake, loaded, model, limit=limit or None), as_csv=as_csv)


def _show_models(session: Session, loaded: list[Model]) -> None:
    rows = [
        {"model": model.name, "layer": model.layer, "answers": model.answers, "about": model.about}
        for layer in ("marts", "intermediate", "staging", "tests")
        for model in sorted(loaded, key=lambda each: each.name)
        if model.layer == layer
    ]
    if session.as_json:
        session.screen.print_json({"models": rows})
        return
    told = [
        {name: row[name] for name in ("model", "layer")} | {"what it tells": _describe_model(row)}
        for row in rows
    ]
    session.screen.print_table(told)


def _describe_model(row: dict[str, str]) -> str:
    return row["answers"] or row["about"]


def _show_sql(session: Session, model: Model) -> None:
    if session.as_json:
        columns = {name: {"type": c.type, "comment": c.comment} for name, c in model.columns.items()}
        session.screen.print_json(
            {"model": model.name, "layer": model.layer, "sql": model.sql, "columns": columns}
        )
    else:
        session.screen.print_text(model.sql)


def _show_rows(session: Session, answer: SqlResult, *, as_csv: bool) -> None:
    rows = answer.rows.to_pylist()
    if session.as_json:
        columns = [{"name": field.name, "type": str(field.type)} for field in answer.rows.schema]
        plain = [{name: _to_json_value(value) for name, value in row.items()} for row in rows]
        session.screen.print_json({"columns": columns, "rows": plain, "total": answer.total})
    elif as_csv:
        session.screen.print_text(_format_csv(answer.rows).removesuffix("\n"))
    elif rows:
        cells = [{name: _format_cell(value) for name, value in row.items()} for row in rows]
        session.screen.print_table(cells, right_aligned=_numeric_columns(answer.rows))
    else:
        session.screen.print_note("No rows.")
    if len(rows) < answer.total:
        session.screen.print_note(f"The first {len(rows):,} of {answer.total:,} rows: --limit 0 prints all.")


def _format_csv(rows: pa.Table) -> str:
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow(rows.schema.names)
    columns = [[_to_json_value(value) for value in column.to_pylist()] for column in rows.columns]
    writer.writerows(zip(*columns, strict=True))
    return written.getvalue()


def _numeric_columns(rows: pa.Table) -> list[str]:
    import pyarrow as pa

    numeric = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    return [field.name for field in rows.schema if any(is_such(field.type) for is_such in numeric)]


def _to_json_value(value: Any) -> Any:
    """A JSON value: times as ISO says, nothing for what is no number."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, date):  # a datetime is one, too
        return value.isoformat()
    return value


def _format_cell(value: Any) -> Any:
    """What a person reads: times to the second, numbers with six digits."""
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    return f"{value:,.6g}" if isinstance(value, float) else value

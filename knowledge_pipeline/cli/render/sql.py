"""What `knowledge sql` shows: models, their SQL, and rows."""

from __future__ import annotations

import csv
import io
import math
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from knowledge_pipeline.cli.render.screen import Screen
    from knowledge_pipeline.sql_models.model import Model
    from knowledge_pipeline.sql_models.run import SqlResult


def show_models(screen: Screen, models: list[Model]) -> None:
    """List the models, layer by layer."""
    rows = [
        {"model": model.name, "layer": model.layer, "answers": model.answers, "about": model.about}
        for layer in ("marts", "intermediate", "staging", "tests")
        for model in sorted(models, key=lambda each: each.name)
        if model.layer == layer
    ]
    screen.print_json({"models": rows})
    screen.print_table(
        [
            {"model": row["model"], "layer": row["layer"], "answers": row["answers"] or row["about"]}
            for row in rows
        ]
    )


def show_sql(screen: Screen, model: Model) -> None:
    """Show the SQL of a model."""
    columns = {name: {"type": c.type, "comment": c.comment} for name, c in model.columns.items()}
    screen.print_json({"model": model.name, "layer": model.layer, "sql": model.sql, "columns": columns})
    screen.print_text(model.sql)


def show_rows(screen: Screen, answer: SqlResult, *, as_csv: bool) -> None:
    """Show the rows of a query."""
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
    """A cell for people: times to the second, numbers with six digits."""
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    return f"{value:,.6g}" if isinstance(value, float) else value

"""`sql`: list, show, run and query the models of dbt_like_sql."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from knowledge_pipeline.cli.session import Session, WrongUsage, example

if TYPE_CHECKING:
    import pyarrow as pa


def complete_model_names(context: typer.Context, incomplete: str) -> list[str]:
    """Complete the names of models."""
    from knowledge_pipeline.errors import KnowledgeError
    from knowledge_pipeline.sql_models.files import load_models

    del context
    with suppress(KnowledgeError, OSError):
        return [model.name for model in load_models() if model.name.startswith(incomplete)]
    return []


def _list_own_folders(session: Session) -> tuple[Path, ...]:
    """Folders of the project's own models; none where there is no configuration, to list the others."""
    from knowledge_pipeline.errors import ConfigError

    try:
        session.config_path  # noqa: B018 - raises where there is none
    except ConfigError:
        return ()
    return session.settings_without_secrets.sql_models.folders


def load_configured_sources(session: Session) -> pa.Table:
    """The sources as they are configured now, for `raw_sources`."""
    from knowledge_pipeline.sql_models.configured_sources import build_configured_sources
    from knowledge_pipeline.stages.code_versions import compute_code_versions

    settings = session.settings_without_secrets
    return build_configured_sources(settings, session.config_path, compute_code_versions)


@example("""
    knowledge sql
    knowledge sql stale_sources
    knowledge sql cost_by_source
    knowledge sql freshness --csv > freshness.csv
    knowledge sql document_links --show
    knowledge sql --query "select source, count(*) as n from document_links group by source"
""")
def sql(
    session: Session,
    model: Annotated[
        str | None, Argument(metavar="MODEL", help="The model to run.", autocompletion=complete_model_names)
    ] = None,
    query: Annotated[
        str | None, Option(metavar="SELECT", help="Run this select over models and raw tables.")
    ] = None,
    show: Annotated[bool, Option("--show", help="Print the model's SQL, and do not run it.")] = False,
    limit: Annotated[int, Option(metavar="N", help="Rows to print; 0: all.", min=0)] = 100,
    as_csv: Annotated[bool, Option("--csv", help="Print CSV with a header line.")] = False,
) -> None:
    """Answer questions about the pipeline: cost, freshness, duplicates, links, quality.

    MODEL is one of the SQL models in dbt_like_sql, and runs on the current store; without
    one, the models are listed. Nothing is written. A --query may read the models and the
    raw tables below them; it cannot reach files or the network.
    """
    from knowledge_pipeline.cli.render.sql import show_models, show_rows, show_sql
    from knowledge_pipeline.sql_models import run
    from knowledge_pipeline.sql_models.files import load_models, select_required_models

    if model is not None and query is not None:
        raise WrongUsage("give a MODEL or --query, not both")
    if show and model is None:
        raise WrongUsage("--show needs a MODEL")
    if as_csv and session.as_json:
        raise WrongUsage("give --csv or --json, not both")
    loaded = load_models(own_folders=_list_own_folders(session))
    sources = load_configured_sources(session) if query is not None or (model and not show) else None
    if query is not None:
        answer = run.run_query(session.lake, loaded, query, limit=limit or None, sources=sources)
        show_rows(session.screen, answer, as_csv=as_csv)
    elif model is None:
        show_models(session.screen, loaded)
    elif show:
        show_sql(session.screen, select_required_models(loaded, [model])[-1])
    else:
        answer = run.query_model(session.lake, loaded, model, limit=limit or None, sources=sources)
        show_rows(session.screen, answer, as_csv=as_csv)

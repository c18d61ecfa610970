"""The command `knowledge`: its commands, and one door for whatever goes wrong in them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from knowledge_pipeline.cli import (
    context,
    eval,
    export,
    feedback,
    graph,
    init,
    maintain,
    mcp,
    refresh,
    related,
    releases,
    search,
    serve,
    sql,
    status,
    token,
)
from knowledge_pipeline.cli.exit_codes import (
    INTERRUPTED,
    SUCCESS,
    WRONG_USAGE,
    report_error,
    report_interrupted,
)
from knowledge_pipeline.cli.session import Session, add_command, expose_options
from knowledge_pipeline.cli.sources import commands
from knowledge_pipeline.cli.watch import command


class ErrorReportingGroup(TyperGroup):
    """Runs a command; every error leaves as one sentence and an exit code."""

    def main(self, args: Sequence[str] | None = None, *rest: Any, **options: Any) -> Any:
        """Run the command line `args`, and exit."""
        arguments = list(sys.argv[1:] if args is None else args)
        options["standalone_mode"] = False
        try:
            code = super().main(arguments, *rest, **options)
        except KeyboardInterrupt:
            code = INTERRUPTED
        except Exception as error:  # noqa: BLE001 - the last door: a bug is told, not thrown at a person
            code = report_error(error, arguments)
        if code == INTERRUPTED:
            report_interrupted(arguments)
        sys.exit(code or SUCCESS)


COMMANDS = (
    init.init,
    refresh.index,
    refresh.refresh,
    refresh.reindex,
    command.watch,
    search.search,
    search.similar,
    search.get,
    related.related,
    search.debug,
    context.context,
    eval.eval_,
    feedback.feedback,
    status.status,
    export.export,
    releases.releases,
    releases.rollback,
    releases.purge,
    maintain.maintain,
    sql.sql,
    serve.serve,
    mcp.mcp,
)
SOURCES_COMMANDS = (commands.list_, commands.add, commands.remove, commands.test)
TOKEN_COMMANDS = (token.create, token.list_, token.revoke)
GRAPH_COMMANDS = (
    graph.usages,
    graph.references,
    graph.calls,
    graph.hierarchy,
    graph.dependencies,
    graph.impact,
    graph.related,
)


def _root_callback(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
    **shared: Any,
) -> None:
    """Make knowledge searchable: code, documents and history, for people and agents.

    `knowledge index --repo PATH_OR_URL` indexes a repository; `knowledge search` asks it.
    """
    context.obj = Session(**shared)
    if version:
        from knowledge_pipeline import __version__

        typer.echo(f"knowledge {__version__}")
        raise typer.Exit(SUCCESS)
    _require_command(context)


def _sources_callback(context: typer.Context) -> None:
    """List, add, remove and test the sources in knowledge.yaml."""
    _require_command(context)


def _graph_callback(context: typer.Context) -> None:
    """Ask the code graph: what uses this, what does it call, what would break."""
    _require_command(context)


def _token_callback(context: typer.Context) -> None:
    """Make, list and end the tokens that a server's clients send."""
    _require_command(context)


def _require_command(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), err=True)
        raise typer.Exit(WRONG_USAGE)


def _build_app() -> typer.Typer:
    made = typer.Typer(
        name="knowledge", cls=ErrorReportingGroup, rich_markup_mode=None, pretty_exceptions_enable=False
    )
    expose_options(_root_callback, _root_callback)
    made.callback(invoke_without_command=True)(_root_callback)
    for function in COMMANDS:
        add_command(made, function)
    for name, about, functions in (
        ("graph", _graph_callback, GRAPH_COMMANDS),
        ("sources", _sources_callback, SOURCES_COMMANDS),
        ("token", _token_callback, TOKEN_COMMANDS),
    ):
        group = typer.Typer(rich_markup_mode=None)
        group.callback(invoke_without_command=True)(about)
        for function in functions:
            add_command(group, function)
        made.add_typer(group, name=name)
    return made


app = _build_app()

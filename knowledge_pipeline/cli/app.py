"""The program `knowledge`: its commands, and the one place where errors become exit codes."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer import Option
from typer.core import TyperGroup

from knowledge_pipeline.cli.commands import graph, token
from knowledge_pipeline.cli.commands.context import context
from knowledge_pipeline.cli.commands.debug import debug
from knowledge_pipeline.cli.commands.doctor import doctor
from knowledge_pipeline.cli.commands.eval import eval_
from knowledge_pipeline.cli.commands.export import export
from knowledge_pipeline.cli.commands.feedback import feedback
from knowledge_pipeline.cli.commands.get import get
from knowledge_pipeline.cli.commands.index import index
from knowledge_pipeline.cli.commands.init import init
from knowledge_pipeline.cli.commands.maintain import maintain
from knowledge_pipeline.cli.commands.mcp import mcp
from knowledge_pipeline.cli.commands.mcp_install import install
from knowledge_pipeline.cli.commands.purge import purge
from knowledge_pipeline.cli.commands.refresh import refresh
from knowledge_pipeline.cli.commands.reindex import reindex
from knowledge_pipeline.cli.commands.related import related
from knowledge_pipeline.cli.commands.releases import releases
from knowledge_pipeline.cli.commands.rollback import rollback
from knowledge_pipeline.cli.commands.search import search
from knowledge_pipeline.cli.commands.serve import serve
from knowledge_pipeline.cli.commands.similar import similar
from knowledge_pipeline.cli.commands.sql import sql
from knowledge_pipeline.cli.commands.status import status
from knowledge_pipeline.cli.exit_codes import (
    INTERRUPTED,
    SUCCESS,
    WRONG_USAGE,
    report_error,
    report_interrupted,
)
from knowledge_pipeline.cli.session import Session, add_command, add_group, expose_options
from knowledge_pipeline.cli.sources import commands as sources
from knowledge_pipeline.cli.watch.command import watch


class ErrorReportingGroup(TyperGroup):
    """Runs a command; every error becomes one sentence and an exit code."""

    def main(self, args: Sequence[str] | None = None, *rest: Any, **options: Any) -> Any:
        """Run the command line `args`, and exit. `Any`: as Typer declares it."""
        arguments = list(sys.argv[1:] if args is None else args)
        options["standalone_mode"] = False
        try:
            code = super().main(arguments, *rest, **options)
        except KeyboardInterrupt:
            code = INTERRUPTED
        except Exception as error:  # noqa: BLE001 - the last resort: a bug is reported in a sentence
            code = report_error(error, arguments)
        if code == INTERRUPTED:
            report_interrupted(arguments)
        sys.exit(code or SUCCESS)


COMMANDS = (
    *(init, index, refresh, reindex, watch, search, similar, get, related, debug, context, eval_, feedback),
    *(doctor, status, export, releases, rollback, purge, maintain, sql, serve),
)


def _root_callback(
    context: typer.Context,
    version: Annotated[
        bool, Option("--version", help="Print the version, and those of what it is made of.")
    ] = False,
    **shared: Any,
) -> None:
    """Make knowledge searchable: code, documents and history, for people and agents.

    `knowledge index --repo PATH_OR_URL` indexes a repository; `knowledge search` asks it.
    """
    context.obj = Session(**shared)
    if version:
        from knowledge_pipeline.cli.versions import list_versions

        typer.echo(", ".join(list_versions()))
        raise typer.Exit(SUCCESS)
    _require_command(context)


GRAPH = (
    *(graph.usages, graph.references, graph.calls, graph.hierarchy, graph.dependencies),
    *(graph.impact, graph.related),
)
GROUPS = {
    "graph": ("Ask the code graph: what uses this, what does it call, what would break.", GRAPH),
    "sources": (
        "List, add, remove and test the sources in knowledge.yaml.",
        (sources.list_, sources.add, sources.remove, sources.test),
    ),
    "token": (
        "Create, list and revoke the tokens that clients of a server send.",
        (token.create, token.list_, token.revoke),
    ),
}


def _require_command(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), err=True)
        raise typer.Exit(WRONG_USAGE)


def _build_app() -> typer.Typer:
    root = typer.Typer(
        name="knowledge", cls=ErrorReportingGroup, rich_markup_mode=None, pretty_exceptions_enable=False
    )
    version = inspect.signature(_root_callback, eval_str=True).parameters["version"]
    expose_options(_root_callback, [version])
    root.callback(invoke_without_command=True)(_root_callback)
    for function in COMMANDS:
        add_command(root, function)
    add_group(root, mcp, [install])
    for name, (description, functions) in GROUPS.items():
        group = typer.Typer(help=description, rich_markup_mode=None)
        group.callback(invoke_without_command=True)(_require_command)
        for function in functions:
            add_command(group, function)
        root.add_typer(group, name=name)
    return root


app = _build_app()

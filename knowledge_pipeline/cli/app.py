"""The program `knowledge`: its commands, and the one place where errors become exit codes."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Annotated, Any

import typer
from typer import Option
from typer.core import TyperCommand, TyperGroup

from knowledge_pipeline.cli.exit_codes import (
    INTERRUPTED,
    SUCCESS,
    WRONG_USAGE,
    report_error,
    report_interrupted,
)
from knowledge_pipeline.cli.session import Session, add_command, add_group, expose_options
from knowledge_pipeline.contract.usage_labels import VARIABLE_NAMES, UsageLabels

SUMMARIES = {
    "init": "Write a knowledge.yaml that declares what a folder holds.",
    "index": "Index a repository, or all configured sources, and publish a release.",
    "refresh": "Bring sources up to date, and publish a release of what changed.",
    "reindex": "Rebuild everything, as if nothing were stored.",
    "push": "Add, replace or delete documents of a source of type push.",
    "watch": "Refresh sources as their files change, until Ctrl-C.",
    "search": "Find what answers a question best.",
    "similar": "Find what is similar to a text or to a file.",
    "get": "Show one chunk, or all chunks of a document, in full.",
    "related": "Show what a document closes, implements, references or changes, and what does so to it.",
    "debug": "Show how a question is answered, step by step.",
    "context": "Gather what an agent should read before it does a task.",
    "eval": "Ask the golden questions, and score the answers.",
    "tune": "Learn the ranking from the corpus, and release it if better.",
    "feedback": "Record whether a result was opened, useful or useless.",
    "doctor": "Check what indexing and searching need here, and say what to do where something is missing.",
    "status": "Show what is live and what is stored of every source.",
    "export": "Write stored documents to files.",
    "releases": "List the releases, the live one first.",
    "rollback": "Make an earlier release live again, at once, and pin it.",
    "purge": "Erase content permanently.",
    "maintain": "Make the store small and fast again.",
    "verify": "Read the whole store, and compare it with itself, or with its sources.",
    "migrate": "Bring a store that an earlier version wrote up to date, in place.",
    "publish": "Copy the live release to PostgreSQL, by what changed.",
    "sql": "Answer questions about the pipeline: cost, freshness, duplicates, links, quality.",
    "costs": "Show what models have cost, and which budgets are spent.",
    "serve": "Serve over HTTP until interrupted.",
    "mcp": "Serve an agent over stdin and stdout, by the Model Context Protocol.",
    "graph": "Ask the code graph: what uses this, what does it call, what would break.",
    "sources": "List, add, remove and test the sources in knowledge.yaml.",
    "hooks": "Let git start a refresh after each commit in a local repository.",
    "token": "Create, list and revoke the tokens that clients of a server send.",
}
"""The first line of each command's help: `knowledge --help` imports no command."""

_MODULES = {
    **dict.fromkeys(("init", "index", "reindex", "push"), "refresh"),
    **dict.fromkeys(("similar", "get", "related", "debug", "feedback"), "search"),
    **dict.fromkeys(("eval", "tune"), "quality"),
    **dict.fromkeys(("maintain", "verify", "migrate", "purge"), "store"),
    **dict.fromkeys(("rollback", "export", "publish"), "releases"),
    **{"costs": "sql", "mcp": "serve", "token": "serve"},
}
_COMMANDS = {"token": "TOKEN_COMMANDS", "mcp": "MCP_COMMANDS"}  # where a module holds those of several
_COMMANDS_WITH_OTHERS = ("mcp", "costs")
_GROUPS = ("graph", "sources", "hooks", "token")


class _Commands(Mapping[str, Any]):
    """The commands by name, each imported when it is asked for."""

    def __init__(self) -> None:
        self._built: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._built and name in SUMMARIES:
            module = import_module(f"knowledge_pipeline.cli.{_MODULES.get(name, name)}")
            app = _new_app()
            if name in _GROUPS:
                group = typer.Typer(help=SUMMARIES[name], rich_markup_mode=None)
                group.callback(invoke_without_command=True)(_require_command)
                for function in getattr(module, _COMMANDS.get(name, "COMMANDS")):
                    add_command(group, function)
                app.add_typer(group, name=name)
            elif name in _COMMANDS_WITH_OTHERS:
                add_group(app, getattr(module, name), getattr(module, _COMMANDS.get(name, "COMMANDS")))
            else:
                add_command(app, getattr(module, "eval_" if name == "eval" else name))
            self._built[name] = typer.main.get_group(app).commands[name]
        return self._built[name]

    def __iter__(self) -> Iterator[str]:
        return iter(SUMMARIES)

    def __len__(self) -> int:
        return len(SUMMARIES)


class KnowledgeGroup(TyperGroup):
    """Runs a command; every error becomes one sentence and an exit code."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands = _Commands()

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List the commands with the first lines of their help. `Any`: Typer's types for it are private."""
        listed: dict[str, Any] = {name: TyperCommand(name, help=line) for name, line in SUMMARIES.items()}
        TyperGroup(commands=listed).format_commands(ctx, formatter)

    def main(self, args: Sequence[str] | None = None, *rest: Any, **options: Any) -> Any:
        """Run the command line `args`, and exit. `Any`: as Typer declares it."""
        arguments = list(sys.argv[1:] if args is None else args)
        options["standalone_mode"] = False
        try:
            code = super().main(arguments, *rest, **options)
        except KeyboardInterrupt:
            code = INTERRUPTED
        except SystemExit:
            raise
        except BaseException as error:  # noqa: BLE001 - the last resort: a bug is reported in a sentence
            code = report_error(error, arguments)  # also of Rust, whose panic is no Exception
        if code == INTERRUPTED:
            report_interrupted(arguments)
        sys.exit(code or SUCCESS)


def _root_callback(
    context: typer.Context,
    version: Annotated[
        bool, Option("--version", help="Print the version, and those of what it is made of.")
    ] = False,
    for_session: Annotated[
        str | None,
        Option(
            metavar="NAME", envvar=VARIABLE_NAMES["session"], help="The session that costs and logs name."
        ),
    ] = None,
    for_project: Annotated[
        str | None,
        Option(metavar="NAME", envvar=VARIABLE_NAMES["project"], help="The project that they name."),
    ] = None,
    on_behalf_of: Annotated[
        str | None,
        Option(
            metavar="NAME", envvar=VARIABLE_NAMES["on_behalf_of"], help="Whom you work for; for logs alone."
        ),
    ] = None,
    **shared: Any,
) -> None:
    """Make knowledge searchable: code, documents and history, for people and agents.

    `knowledge index --repo PATH_OR_URL` indexes a repository; `knowledge search` asks it.
    """
    context.obj = Session(**shared)
    context.obj.labels = UsageLabels(for_session or None, for_project or None, on_behalf_of or None)
    if version:
        typer.echo(", ".join(list_versions()))
        raise typer.Exit(SUCCESS)
    _require_command(context)


def _require_command(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), err=True)
        raise typer.Exit(WRONG_USAGE)


def _new_app(group: type[TyperGroup] = TyperGroup) -> typer.Typer:
    return typer.Typer(name="knowledge", cls=group, rich_markup_mode=None, pretty_exceptions_enable=False)


app = _new_app(KnowledgeGroup)
expose_options(
    _root_callback, list(inspect.signature(_root_callback, eval_str=True).parameters.values())[1:-1]
)
app.callback(invoke_without_command=True)(_root_callback)


_OPTIONAL_PACKAGES = {  # -> the extra that has it
    "tree-sitter": "index",
    "onnxruntime": "models",
    "fastapi": "serve",
    "dagster": "dagster",
    "torch": "local",
}


def list_versions() -> list[str]:
    """This package, Python and important libraries: "knowledge 0.1.0", "no torch (extra `local`)"."""
    from importlib.metadata import PackageNotFoundError, version

    from knowledge_pipeline import __version__

    own = [f"knowledge {__version__}", f"Python {sys.version.split()[0]}"]
    versions = [*own, *(f"{name} {version(name)}" for name in ("pylance", "duckdb"))]
    for package, extra in _OPTIONAL_PACKAGES.items():
        try:
            versions.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            versions.append(f"no {package} (extra `{extra}`)")
    return versions

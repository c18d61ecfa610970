"""What every command shares: the options `--config --json --quiet --verbose --debug`, and what they open.

A command is a function that takes a `Session` first. The shared options are added to each,
and may as well stand before the command's name.
"""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from knowledge_pipeline.cli.render.screen import Screen
from knowledge_pipeline.errors import ConfigError

if TYPE_CHECKING:
    from knowledge_pipeline.config.settings import Settings
    from knowledge_pipeline.store.lake import Lake

Command = Callable[..., int | None]
"""Returns an exit code; None is 0."""


class WrongUsage(typer.TyperException):
    """The command line makes no sense as a whole; the message says what to give."""

    exit_code = 2


def declare_shared_options(
    config: Annotated[
        Path | None,
        typer.Option(
            "--config", metavar="PATH", help="The knowledge.yaml to use, instead of the nearest one."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON value and nothing else.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress and no notes.")] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Show details, such as every skip.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an unexpected error.")
    ] = False,
) -> None:
    """The options that every command has; only the signature counts."""


@dataclass
class Session:
    """One run of one command: its screen, and the project that it is about."""

    config: Path | None = None  # as named on the command line
    as_json: bool = False
    quiet: bool = False
    verbose: bool = False
    debug: bool = False
    screen: Screen = field(init=False)

    def __post_init__(self) -> None:
        self.screen = Screen(as_json=self.as_json, quiet=self.quiet, verbose=self.verbose)

    def merge_options(self, options: dict[str, Any]) -> Session:
        """The session under options given before the command's name and after it."""
        return Session(**{name: value or getattr(self, name) for name, value in options.items()})

    @cached_property
    def config_path(self) -> Path:
        """The `knowledge.yaml` of this run.

        Raises:
            ConfigError: there is none.
        """
        from knowledge_pipeline.config.file import find_config

        if self.config is None:
            return find_config(Path.cwd())
        path = self.config.expanduser()
        path = path / "knowledge.yaml" if path.is_dir() else path
        if not path.is_file():
            raise ConfigError(f"there is no {path}: correct --config, or run `knowledge init`")
        return path.absolute()

    @cached_property
    def settings(self) -> Settings:
        """What the file and the environment say.

        Raises:
            ConfigError: one line for every problem.
        """
        from knowledge_pipeline.config.file import load_settings

        return load_settings(self.config_path)

    @cached_property
    def settings_without_secrets(self) -> Settings:
        """The same for what contacts nobody: an environment variable that is not set is no error.

        Raises:
            ConfigError: one line for every problem; the store's folder must be known.
        """
        from knowledge_pipeline.config.file import load_settings
        from knowledge_pipeline.config.store import is_resolved

        known = load_settings(self.config_path, allow_unset=True)
        return known if is_resolved(known.store) else self.settings

    @cached_property
    def lake(self) -> Lake:
        """The store that the settings name."""
        from knowledge_pipeline.store.lake import Lake

        return Lake(self.settings_without_secrets.store)

    def forget_settings(self) -> None:
        """Read the file anew at the next use: this run has changed it."""
        for name in ("config_path", "settings", "settings_without_secrets", "lake"):
            self.__dict__.pop(name, None)


class _NoteHandler(logging.Handler):
    """What our own modules warn of, as notes on the screen: "another process is working on ..."."""

    def __init__(self, screen: Screen) -> None:
        super().__init__(logging.WARNING)
        self._screen = screen

    def emit(self, record: logging.LogRecord) -> None:
        self._screen.print_note(record.getMessage())


SHARED_OPTIONS = inspect.signature(declare_shared_options, eval_str=True).parameters


def example(lines: str) -> Callable[[Command], Command]:
    """Put command lines to try under a command's help."""

    def set_epilog(function: Command) -> Command:
        shown = "\n".join(f"  {line}" for line in inspect.cleandoc(lines).split("\n"))
        function.__dict__["epilog"] = f"\b\nExamples:\n{shown}"
        return function

    return set_epilog


def add_command(app: typer.Typer, function: Command) -> None:
    """Make a function a command of its name; its docstring is the help."""

    @functools.wraps(function)
    def run(context: typer.Context, **options: Any) -> None:
        shared = {name: options.pop(name) for name in SHARED_OPTIONS}
        session = (context.obj or Session()).merge_options(shared)
        logging.getLogger("knowledge_pipeline").handlers = [_NoteHandler(session.screen)]
        raise typer.Exit(function(session, **options) or 0)

    expose_options(run, function)
    app.command(function.__name__.strip("_"), epilog=function.__dict__["epilog"])(run)


def expose_options(run: Callable[..., None], command: Callable[..., Any]) -> None:
    """Let Typer see the parameters of `shown` behind its first one, then the shared options."""
    own = [*inspect.signature(command, eval_str=True).parameters.values()][1:]
    by_name = [each for each in own if each.kind is not inspect.Parameter.VAR_KEYWORD]
    context = inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
    signed = [context]
    signed += [
        each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in (*by_name, *SHARED_OPTIONS.values())
    ]
    run.__dict__.pop("__wrapped__", None)
    run.__dict__["__signature__"] = inspect.Signature(signed)
    run.__annotations__ = {each.name: each.annotation for each in signed}

"""What every command shares: the options `--config --json --quiet --verbose --debug`, and what they open.

A command is a function whose first parameter is a `Session`. `add_command` adds the shared options
to it, and expands each parameter whose type is a dataclass into the options that its fields declare.
The shared options may also precede the command's name. Options and prompts of several commands are here too.
"""

from __future__ import annotations

import functools
import gc
import inspect
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cached_property, partial
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer
from typer import Option
from typer.core import TyperCommand

from knowledge_pipeline.cli.screen import Screen
from knowledge_pipeline.contract.usage_labels import UsageLabels
from knowledge_pipeline.errors import ConfigError, KnowledgeError

if TYPE_CHECKING:
    from knowledge_pipeline.config.embedding import EmbeddingSettings
    from knowledge_pipeline.config.settings import Settings
    from knowledge_pipeline.knowledge_base import KnowledgeBase
    from knowledge_pipeline.store.lake import Lake


Command = Callable[..., int | None]
"""Returns an exit code; None is 0."""


_SHORT_COMMANDS = ("context", "get", "related", "search", "similar", "status")
"""They end before garbage matters; looking for it takes 7 % of a search."""


class WrongUsage(typer.TyperException):
    """The options do not fit together; the message says what to give."""

    exit_code = 2


@dataclass
class Session:
    """One run of one command: the shared options, the screen, and the project."""

    config: Annotated[
        Path | None, Option(metavar="PATH", help="Use this knowledge.yaml instead of the nearest one.")
    ] = None
    as_json: Annotated[bool, Option("--json", help="Print one JSON value and nothing else.")] = False
    quiet: Annotated[bool, Option("--quiet", "-q", help="Hide progress and notes.")] = False
    verbose: Annotated[
        bool, Option("--verbose", "-v", help="Show details, such as every skipped document.")
    ] = False
    debug: Annotated[bool, Option("--debug", help="Show the traceback of an unexpected error.")] = False
    labels: UsageLabels = field(init=False, default_factory=UsageLabels)  # of `knowledge --for-session ...`
    screen: Screen = field(init=False)

    def __post_init__(self) -> None:
        self.screen = Screen(as_json=self.as_json, quiet=self.quiet, verbose=self.verbose)

    def merge_options(self, options: dict[str, Any]) -> Session:
        """Combine the shared options before the command's name with those after it."""
        merged = Session(**{name: value or getattr(self, name) for name, value in options.items()})
        merged.labels = self.labels
        return merged

    @cached_property
    def config_path(self) -> Path:
        """The `knowledge.yaml` of this run; raises ConfigError if there is none."""
        from knowledge_pipeline.cli.overlay import find_config_of_tree

        if self.config is None:
            return find_config_of_tree(Path.cwd())
        return require_config(self.config, option="--config", remedy=", or run `knowledge init`")

    @cached_property
    def settings(self) -> Settings:
        """The settings of the file and the environment; raises ConfigError, a line for every problem."""
        from knowledge_pipeline.config.file import load_settings

        return load_settings(self.config_path)

    @cached_property
    def lake(self) -> Lake:
        """The store that the settings name."""
        from knowledge_pipeline.store.lake import Lake

        return Lake(self.settings.store)

    def open_knowledge_base(self, settings: Settings | None = None) -> KnowledgeBase:
        """Open the live release, by default with `settings` of this session, for the operator.

        In a working tree of a source, what differs there lies over the release.
        """
        from knowledge_pipeline.cli.overlay import open_overlay
        from knowledge_pipeline.knowledge_base import KnowledgeBase
        from knowledge_pipeline.query.access import Access

        access = Access.operator("cli").with_labels(self.labels)
        settings, lake = open_overlay(settings or self.settings, self.screen)
        return KnowledgeBase(settings, access=access, choose_lake=(lambda: lake) if lake else None)

    def preload_models(self, text: str = "") -> None:
        """Load the models of one query in the background, while a command imports what else it needs.

        They embed the text at once, which is probably what they will be asked for.
        """
        from knowledge_pipeline.embedding.parallel import open_sessions_for_one_text

        def warm_model(embedding: EmbeddingSettings) -> None:
            from knowledge_pipeline.embedding.registry import open_embedder

            with suppress(KnowledgeError):  # the command reports it, or does without
                open_embedder(embedding).embed_query(text)

        open_sessions_for_one_text()
        for embedding in self.settings.list_embeddings():
            if embedding.provider == "local":
                Thread(target=warm_model, args=(embedding,), name="preload").start()

    def use_config(self, path: Path) -> None:
        """Use another file, or the same one after this run has edited it."""
        self.config = path
        for name in ("config_path", "settings", "lake"):
            self.__dict__.pop(name, None)


def expand_option_group(group: type[Any]) -> list[inspect.Parameter]:
    """One keyword-only parameter for each annotated field of a dataclass, as Typer reads them."""
    hints = get_type_hints(group, include_extras=True)
    kind = inspect.Parameter.KEYWORD_ONLY
    return [
        inspect.Parameter(field.name, kind, default=field.default, annotation=hints[field.name])
        for field in fields(group)
        if field.init
    ]


def complete_source_ids(context: typer.Context, incomplete: str) -> list[str]:
    """Complete the ids of configured sources; none if the file is missing or invalid."""
    from knowledge_pipeline.config.file import find_config, load_settings

    config = context.params.get("config")
    with suppress(KnowledgeError, OSError):
        sources = load_settings(Path(config) if config else find_config(Path.cwd())).sources
        return [source.id for source in sources if source.id.startswith(incomplete)]
    return []


Names = list[str] | None
"""The values of an option that may be repeated."""

_ids: Any = partial(Option, "--source", "-s", metavar="ID", autocompletion=complete_source_ids)
Source = Annotated[str, _ids(help="The source.")]
Sources = Annotated[Names, _ids(help="Only this source, or those of this type (repeatable).")]
Dagster = Annotated[bool, Option("--dagster", help="Record the run in Dagster.")]
AllowEmpty = Annotated[
    bool, Option("--allow-empty", help="Accept an empty listing from a source that had documents.")
]
Documents = Annotated[
    Names,
    Option(
        "--document",
        metavar="SOURCE/URI",
        help="Of a service: read this document and no others, or archive it if it is gone (repeatable).",
    ),
]
Relist = Annotated[bool, Option("--relist", help="List services in full, to detect deletions now.")]
Yes = Annotated[bool, Option("--yes", "-y", help="Do not ask for confirmation.")]
TokenVariable = Annotated[
    str | None,
    Option("--token-env", metavar="NAME", help="Environment variable that holds the token for --url."),
]

MaxAge = Annotated[
    str | None,
    Option("--max-age", metavar="SPAN", help="Name sources that are not known to be as new: 15m, 2h, 1d."),
]
Blame = Annotated[bool, Option("--blame", help="Say who last changed the lines of each result, by git.")]


def resolve_config(path: Path) -> Path:
    """The file that `path` names: itself, or `knowledge.yaml` in the folder that it is."""
    path = path.expanduser()
    return path / "knowledge.yaml" if path.is_dir() else path


def require_config(path: Path, *, option: str, remedy: str = "") -> Path:
    """The same, absolute; raises ConfigError if there is no such file."""
    config = resolve_config(path)
    if not config.is_file():
        raise ConfigError(f"there is no {config}: correct {option}{remedy}")
    return config.absolute()


class _NoteHandler(logging.Handler):
    """Shows warnings of the package as notes on the screen, each once."""

    def __init__(self, screen: Screen) -> None:
        super().__init__(logging.WARNING)
        self._screen = screen
        self._shown: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        if message not in self._shown:
            self._shown.add(message)
            with suppress(OSError):  # a full disk under stderr ends nothing that warns of it
                self._screen.print_note(message)


def example(lines: str, *, more: Callable[[], str] | None = None) -> Callable[[Command], Command]:
    """Put example command lines under a command's help, and more lines as they are under those."""

    def set_epilog(function: Command) -> Command:
        shown = "\n".join(f"  {line}" for line in inspect.cleandoc(lines).split("\n"))
        below = f"\n\n\b\n{more()}" if more else ""
        function.__dict__["epilog"] = f"\b\nExamples:\n{shown}{below}"
        return function

    return set_epilog


_QUESTION_MODULES = tuple(f"knowledge_pipeline.cli.{name}" for name in ("search", "context", "graph"))


class QuestionCommand(TyperCommand):
    """A command that asks: of its options, one with an empty value is not set, as scripts write it.

    Commands that change something refuse an empty value: it may be a variable that is not set by mistake.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse without options that are empty. `Any`: Typer's types for it are private."""
        options: list[Any] = [option for option in self.params if not getattr(option, "is_flag", True)]
        names = {name for option in options for name in option.opts if name.startswith("-")}
        kept = list[str]()
        for arg in args:
            if arg == "" and kept and kept[-1] in names:
                kept.pop()
            elif not (arg.endswith("=") and arg[:-1] in names):
                kept.append(arg)
        return super().parse_args(ctx, kept)


def add_command(app: typer.Typer, function: Command) -> None:
    """Make a function a command named after it; its docstring is the help."""
    cls = QuestionCommand if function.__module__ in _QUESTION_MODULES else None
    name, epilog = function.__name__.strip("_"), function.__dict__["epilog"]
    app.command(name, cls=cls, epilog=epilog)(_to_callback(function))


def add_group(app: typer.Typer, function: Command, subcommands: Iterable[Command]) -> None:
    """Make a function a command that has others below it, and runs where none of them is named."""
    group = typer.Typer(rich_markup_mode=None)
    epilog = function.__dict__["epilog"]
    group.callback(invoke_without_command=True, epilog=epilog)(_to_callback(function))
    for subcommand in subcommands:
        add_command(group, subcommand)
    app.add_typer(group, name=function.__name__)


def _to_callback(function: Command) -> Callable[..., None]:
    parameters = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
    groups: dict[str, Any] = {
        parameter.name: parameter.annotation for parameter in parameters if is_dataclass(parameter.annotation)
    }

    @functools.wraps(function)
    def run(context: typer.Context, **options: Any) -> None:
        shared = {parameter.name: options.pop(parameter.name) for parameter in expand_option_group(Session)}
        session = (context.obj or Session()).merge_options(shared)
        if context.invoked_subcommand is not None:
            context.obj = session
            return
        for name, group in groups.items():
            values = {parameter.name: options.pop(parameter.name) for parameter in expand_option_group(group)}
            options[name] = group(**values)
        if function.__name__ not in _SHORT_COMMANDS:
            gc.enable()
        logging.getLogger("knowledge_pipeline").handlers = [_NoteHandler(session.screen)]
        raise typer.Exit(function(session, **options) or 0)

    expose_options(run, parameters)
    return run


def expose_options(run: Callable[..., None], parameters: list[inspect.Parameter]) -> None:
    """Let Typer see `parameters`, dataclasses expanded, and then the shared options."""
    context = inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
    shown = [context]
    for parameter in [*parameters, context.replace(name="shared", annotation=Session)]:
        is_group = is_dataclass(parameter.annotation)
        shown += (
            expand_option_group(parameter.annotation)
            if is_group
            else [parameter.replace(kind=parameter.KEYWORD_ONLY)]
        )
    run.__dict__.pop("__wrapped__", None)
    run.__dict__["__signature__"] = inspect.Signature(shown)
    run.__annotations__ = {option.name: option.annotation for option in shown}


def apply_overrides(settings: Settings, overrides: Sequence[str]) -> Settings:
    """The settings with overrides such as `query.vector_weight=0.7`; a value is read as YAML.

    Raises WrongUsage for another form, ConfigError with a line for every unknown key or wrong value.
    """
    from pydantic import ValidationError

    from knowledge_pipeline.config.problems import ParsedConfig, parse_config, to_problem
    from knowledge_pipeline.config.settings import Settings

    if not overrides:
        return settings
    values = {**dict(settings), "query": settings.query.model_dump(exclude_unset=True)}
    for override in overrides:
        name, equals, text = override.partition("=")
        *holders, key = name.strip().split(".")
        if not equals or not key or holders[:1] != ["query"]:
            raise WrongUsage(
                f"found --set {override}; allowed: a setting under query: query.vector_weight=0.7"
            )
        inner: dict[str, Any] = values
        for holder in holders:
            former = inner.get(holder)
            inner[holder] = former if isinstance(former, dict) else {}
            inner = inner[holder]
        parsed = parse_config(text, name=f"--set {name}")
        if parsed.problems:
            raise ConfigError(f"--set {name}: {parsed.problems[0]}")
        inner[key] = parsed.value
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        problems = (to_problem(detail, ParsedConfig(values)) for detail in error.errors(include_url=False))
        raise ConfigError("\n".join(f"--set {problem}" for problem in problems)) from None


def iter_index_locations(file: str, settings: Settings) -> Iterator[tuple[str, str | None]]:
    """The paths that a file may have in the index, each with its source; None is any source.

    A file inside the folder or a checkout of sources is theirs; any other name may be in any source.
    """
    from knowledge_pipeline.query.access import Access
    from knowledge_pipeline.query.places import SourceFolders

    path = Path(file).expanduser()
    folders = SourceFolders(settings.sources, Access.operator())
    located = folders.locate(path.resolve().as_posix()) if path.is_file() else []
    yield from [(name, source) for name, source in located if source] or [(file, None)]


def read_beginning(file: str, settings: Settings) -> str:
    """As much as an example may have of a file that is not in the index."""
    text = Path(file).read_text(encoding="utf-8", errors="replace")
    return text[: settings.limits.example_chars]


def confirm(session: Session, question: str, *, yes: bool) -> bool:
    """Whether the user confirms, by `--yes` or at the prompt; raises WrongUsage if there is no terminal."""
    if not yes and not session.screen.is_interactive:
        raise WrongUsage("this cannot be undone, and there is no terminal to ask on: add --yes")
    if not (confirmed := yes or typer.confirm(question, err=True)):
        session.screen.print_note("Nothing was done.")
    return confirmed


def ask(session: Session, question: str, *, option: str) -> str:
    """The answer to a question; raises WrongUsage, naming the option to give, if there is no terminal."""
    if not session.screen.is_interactive:
        raise WrongUsage(f"give {option}")
    return str(typer.prompt(question, err=True))

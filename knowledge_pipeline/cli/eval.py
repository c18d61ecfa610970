"""`eval`: how well the golden questions are answered, by hand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast, get_args

import typer

from knowledge_pipeline.cli.options import SearchKind
from knowledge_pipeline.cli.render.progress import progress
from knowledge_pipeline.cli.session import Session, WrongUsage, example
from knowledge_pipeline.errors import ConfigError, NotFound

if TYPE_CHECKING:
    from knowledge_pipeline.config.settings import Settings
    from knowledge_pipeline.evaluation.golden import Golden, Question
    from knowledge_pipeline.evaluation.judge import Response


@dataclass(frozen=True, slots=True)
class _Asking:
    """What progress is told of."""

    id: str = "questions"


@dataclass(frozen=True, slots=True)
class _Way:
    """Who answers the questions: settings, and versions of the index."""

    settings: Settings
    tables: Mapping[str, int]
    release: int | None  # None: the newest index

    def told(self, golden: Golden) -> dict[str, Any]:
        """What was asked, and of what, for programs."""
        from knowledge_pipeline.stages.evaluate import golden_of

        return {
            "golden": golden_of(golden, self.settings),
            "tables": dict(self.tables),
            "release": self.release,
        }


@example("""
    knowledge eval
    knowledge eval --misses
    knowledge eval --type semantic --type code
    knowledge eval --questions golden.yaml --release 3 --json
    knowledge eval --steps
    knowledge eval --against-release 3
    knowledge eval --against-config other.yaml
    knowledge eval --set query.vector_weight=0.7 --against-config knowledge.yaml
""")
def eval_(
    session: Session,
    questions: Annotated[
        list[Path] | None,
        typer.Option(
            "--questions",
            metavar="PATH",
            help="A YAML file or BEIR folder, instead of evaluation.questions (repeatable).",
        ),
    ] = None,
    type: Annotated[
        list[str] | None,
        typer.Option(
            "--type",
            "-t",
            metavar=f"[{'|'.join(get_args(SearchKind))}]",
            help="Ask all questions by this search type (repeatable).",
        ),
    ] = None,
    release: Annotated[
        int | None,
        typer.Option("--release", metavar="N", help="Ask this release, instead of the newest index.", min=1),
    ] = None,
    misses: Annotated[bool, typer.Option("--misses", help="List the questions without an answer.")] = False,
    steps: Annotated[
        bool,
        typer.Option(
            "--steps", help="Score vector alone, BM25 alone, fused, and each further step that is on."
        ),
    ] = False,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Ask with this query setting changed (repeatable)."),
    ] = None,
    against_release: Annotated[
        int | None,
        typer.Option("--against-release", metavar="N", help="Compare with this release.", min=1),
    ] = None,
    against_config: Annotated[
        Path | None,
        typer.Option(
            "--against-config",
            metavar="PATH",
            help="Compare with the query settings of this knowledge.yaml, over the same store.",
        ),
    ] = None,
) -> None:
    """Ask the golden questions, and score the answers.

    Asks the newest index, released or not. Every measure is a mean over the questions with
    its 95 % interval; by place, the passage must hold the symbol that an answer names; by
    file, any passage of the file counts. A comparison has the interval of the change, and
    the questions that were won and lost. Nothing is written down: a refresh does that.
    """
    from knowledge_pipeline.cli.render.eval_comparison import show_comparison, show_steps
    from knowledge_pipeline.cli.render.eval_scores import show_scores
    from knowledge_pipeline.cli.setting_overrides import overridden
    from knowledge_pipeline.evaluation.golden import load

    compares = against_release is not None or against_config is not None
    if steps + misses + compares > 1:
        raise WrongUsage("give one of --steps, --misses and --against-release or --against-config")
    golden = load(_files(session, questions))
    asked = list(_by_types(golden.questions, type))
    now = _Way(overridden(session.settings, set_ or ()), _tables(session, release), release)
    if steps:
        show_steps(session.screen, _steps(session, now, asked), now.told(golden), together=not type)
    elif compares:
        against = _Way(
            _settings(session, now.settings, against_config),
            now.tables if against_release is None else _tables(session, against_release),
            release if against_release is None else against_release,
        )
        before, after = _asked(session, against, asked), _asked(session, now, asked)
        told = {**now.told(golden), "against": against.told(golden)}
        show_comparison(session.screen, before, after, told, together=not type)
    else:
        responses = _asked(session, now, asked)
        show_scores(session.screen, responses, now.told(golden), together=not type, misses=misses)


def _asked(session: Session, way: _Way, questions: Sequence[Question]) -> list[Response]:
    from knowledge_pipeline.stages.evaluate import ask

    with progress(session.screen) as report_for:
        return ask(session.lake, way.settings, questions, way.tables, report=report_for(_Asking()))


def _steps(session: Session, way: _Way, questions: Sequence[Question]) -> dict[str, list[Response]]:
    from knowledge_pipeline.stages.ablation import ask_steps

    with progress(session.screen) as report_for:
        return ask_steps(
            session.lake,
            way.settings,
            questions,
            way.tables,
            report_for=lambda step: report_for(_Asking(step)),
        )


def _settings(session: Session, settings: Settings, other: Path | None) -> Settings:
    """Those of another file, if it is about the same index; else `settings`."""
    from knowledge_pipeline.config.file import load

    if other is None:
        return settings
    path = other.expanduser()
    path = path / "knowledge.yaml" if path.is_dir() else path
    if not path.is_file():
        raise ConfigError(f"there is no {path}: correct --against-config")
    found = load(path)
    for what, ours, theirs in (
        ("store", str(settings.store), str(found.store)),
        ("embedding", _spaces(settings), _spaces(found)),
    ):
        if ours != theirs:
            raise ConfigError(
                f"{path.name} has the {what} {theirs}, {session.config_path.name} has {ours}: only what is "
                f"set under query can differ; compare releases to see what another {what} would do"
            )
    return found


def _spaces(settings: Settings) -> str:
    from knowledge_pipeline.embedding.registry import space_of

    chosen = [settings.embedding, *(settings.embedding_of(source) for source in settings.sources)]
    return ", ".join(sorted({space_of(each).name for each in chosen}))


def _files(session: Session, given: Sequence[Path] | None) -> Sequence[Path]:
    files = given or session.settings.evaluation.questions
    if not files:
        raise ConfigError(
            f"there are no golden questions: give --questions, or set evaluation.questions in "
            f"{session.config_path.name} (docs/evaluation.md shows how they are written)"
        )
    return files


def _tables(session: Session, release: int | None) -> Mapping[str, int]:
    from knowledge_pipeline.stages.evaluate import newest
    from knowledge_pipeline.store.release import releases

    if release is None:
        tables = newest(session.lake)
        if not tables:
            raise NotFound("nothing is indexed yet: run `knowledge index`")
        return tables
    by_number = {each.release: each.tables for each in releases(session.lake)}
    if release not in by_number:
        known = ", ".join(map(str, by_number)) or "none"
        raise NotFound(f"there is no release {release}; kept releases: {known}")
    return by_number[release]


def _by_types(questions: Sequence[Question], types: Sequence[str] | None) -> Iterator[Question]:
    if not types:
        yield from questions
    for type_ in dict.fromkeys(types or ()):
        if type_ not in get_args(SearchKind):
            raise WrongUsage(f"found --type {type_}; allowed: {', '.join(get_args(SearchKind))}")
        yield from (replace(question, type=cast("SearchKind", type_)) for question in questions)

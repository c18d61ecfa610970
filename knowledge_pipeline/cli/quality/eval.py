"""`eval`: how well the golden questions are answered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast, get_args

from typer import Option

from knowledge_pipeline.cli.options import Names
from knowledge_pipeline.cli.render.progress import show_progress
from knowledge_pipeline.cli.session import Session, WrongUsage, example, require_config
from knowledge_pipeline.contract.types import SearchType
from knowledge_pipeline.errors import ConfigError, NotFound

if TYPE_CHECKING:
    from knowledge_pipeline.config.settings import Settings
    from knowledge_pipeline.evaluation.golden import GoldenQuestion, GoldenSet
    from knowledge_pipeline.evaluation.judge import QuestionResponse


_PROPOSED_QUESTIONS = 60  # as many as one reviews in an hour


@dataclass(frozen=True, slots=True)
class _EvaluationTarget:
    """What answers the questions: settings, versions of the index, and a release's weights."""

    settings: Settings
    tables: Mapping[str, int]
    ranker: str | None
    release: int | None  # None: the newest index

    def as_json(self, golden: GoldenSet) -> dict[str, Any]:
        """What is asked, and which index, for programs."""
        from knowledge_pipeline.stages.evaluate import evaluation_key

        key = evaluation_key(golden, self.settings, self.ranker)
        return {"golden": key, "tables": dict(self.tables), "release": self.release}


@example("""
    knowledge eval
    knowledge eval --misses
    knowledge eval --type semantic --type code
    knowledge eval --questions golden.yaml --release 3 --json
    knowledge eval --steps
    knowledge eval --against-release 3
    knowledge eval --against-config other.yaml
    knowledge eval --set query.vector_weight=0.7 --against-config knowledge.yaml
    knowledge eval --mine proposed.yaml
""")
def eval_(
    session: Session,
    questions: Annotated[
        list[Path] | None,
        Option(
            metavar="PATH", help="A YAML file or BEIR folder, in place of evaluation.questions (repeatable)."
        ),
    ] = None,
    type: Annotated[
        Names,
        Option(
            "--type",
            "-t",
            metavar=f"[{'|'.join(get_args(SearchType))}]",
            help="Ask all questions as this search type (repeatable).",
        ),
    ] = None,
    release: Annotated[
        int | None, Option(metavar="N", help="Ask this release instead of the newest index.", min=1)
    ] = None,
    misses: Annotated[bool, Option("--misses", help="List the questions without an answer.")] = False,
    steps: Annotated[
        bool, Option("--steps", help="Score vector search, BM25, their fusion, and each further active step.")
    ] = False,
    set_: Annotated[
        Names,
        Option("--set", metavar="KEY=VALUE", help="Change a query setting for this run (repeatable)."),
    ] = None,
    against_release: Annotated[
        int | None, Option(metavar="N", help="Compare with this release.", min=1)
    ] = None,
    against_config: Annotated[
        Path | None,
        Option(
            metavar="PATH",
            help="Compare with the query settings of this knowledge.yaml, over the same store.",
        ),
    ] = None,
    mine: Annotated[
        Path | None,
        Option(
            metavar="PATH",
            help="Ask nothing; propose questions with indexed answers in this new file, to be reviewed.",
        ),
    ] = None,
) -> None:
    """Ask the golden questions, and score the answers.

    Asks the newest index, released or not. Every measure is a mean over the questions with
    its 95 % interval. By place, a result must hold the symbol that an answer names; by
    file, any result from the file counts. A comparison shows the interval of the change, and
    the questions that were won and lost. Only a refresh stores scores.
    """
    if mine is not None:
        if questions or type or release or misses or steps or set_ or against_release or against_config:
            raise WrongUsage("--mine asks nothing, so give no other option of eval with it")
        _propose_questions(session, mine)
        return

    from knowledge_pipeline.cli.render.eval import show_comparison, show_scores, show_step_scores
    from knowledge_pipeline.cli.setting_overrides import apply_overrides
    from knowledge_pipeline.evaluation.golden_files import load_golden_set
    from knowledge_pipeline.stages.tuning.ablation import run_steps

    compares = against_release is not None or against_config is not None
    if steps + misses + compares > 1:
        raise WrongUsage("give one of --steps, --misses and --against-release or --against-config")
    files = questions or session.settings.evaluation.questions
    if not files:
        raise ConfigError(
            f"there are no golden questions: give --questions, or set evaluation.questions in "
            f"{session.config_path.name} (docs/evaluation.md shows how to write them)"
        )
    golden = load_golden_set(files)
    asked = list(_assign_search_types(golden.questions, type))
    settings = apply_overrides(session.settings, set_ or ())
    target = _EvaluationTarget(settings, *_find_index(session, release), release)
    metadata = target.as_json(golden)
    if steps:
        with show_progress(session.screen) as report_for:
            by_step = run_steps(
                session.lake, settings, asked, target.tables, target.ranker, progress_for=report_for
            )
        show_step_scores(session.screen, by_step, metadata, combined=not type)
    elif compares:
        against = _EvaluationTarget(
            _load_comparable_settings(session, settings, against_config),
            *(
                (target.tables, target.ranker)
                if against_release is None
                else _find_index(session, against_release)
            ),
            release if against_release is None else against_release,
        )
        before, after = _ask_questions(session, against, asked), _ask_questions(session, target, asked)
        metadata["against"] = against.as_json(golden)
        show_comparison(session.screen, before, after, metadata, combined=not type)
    else:
        responses = _ask_questions(session, target, asked)
        show_scores(session.screen, responses, metadata, combined=not type, misses=misses)


def _propose_questions(session: Session, path: Path) -> None:
    """Write proposed questions to a file that does not exist yet."""
    from knowledge_pipeline.stages.tuning.mine import mine_pairs
    from knowledge_pipeline.stages.tuning.propose import format_proposals, select_proposals

    path = path.expanduser()
    if path.exists():
        raise WrongUsage(f"{path} exists, and what was reviewed is never overwritten: name another file")
    pairs = select_proposals(mine_pairs(session.lake, session.settings), limit=_PROPOSED_QUESTIONS)
    if not pairs:
        raise NotFound(
            "nothing that is indexed asks a question: index code with docstrings, or its history "
            "(a source of type git_history)"
        )
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(format_proposals(pairs))
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from error
    counts = Counter(pair.kind for pair in pairs)
    session.screen.print_json({"file": str(path), "questions": len(pairs), "kinds": counts})
    session.screen.print_text(
        f"{len(pairs)} questions are proposed in {path}. None counts until you have reviewed it: take the "
        "comment marks off those that are good, and name the file in evaluation.questions."
    )


def _ask_questions(
    session: Session, target: _EvaluationTarget, questions: Sequence[GoldenQuestion]
) -> list[QuestionResponse]:
    from knowledge_pipeline.stages.evaluate import run_questions

    with show_progress(session.screen) as report_for:
        report = report_for("questions")
        return run_questions(
            session.lake, target.settings, questions, target.tables, target.ranker, report=report
        )


def _load_comparable_settings(session: Session, settings: Settings, other_config: Path | None) -> Settings:
    """The settings of another file, which must use the same index; or else `settings`."""
    from knowledge_pipeline.config.file import load_settings

    if other_config is None:
        return settings
    path = require_config(other_config, option="--against-config")
    found = load_settings(path)
    spaces = ("embedding", _format_spaces(settings), _format_spaces(found))
    for key, ours, theirs in (("store", str(settings.store), str(found.store)), spaces):
        if ours != theirs:
            raise ConfigError(
                f"{path.name} has the {key} {theirs}, {session.config_path.name} has {ours}: only settings "
                f"under query may differ; to see what another {key} does, compare releases"
            )
    return found


def _format_spaces(settings: Settings) -> str:
    from knowledge_pipeline.embedding.registry import resolve_space

    return ", ".join(sorted({resolve_space(each).name for each in settings.list_embeddings()}))


def _find_index(session: Session, release: int | None) -> tuple[Mapping[str, int], str | None]:
    """The versions of a release and its weights; None: the newest versions, with the live weights."""
    from knowledge_pipeline.stages.evaluate import newest_index_versions
    from knowledge_pipeline.store.release import list_releases

    releases = list_releases(session.lake)
    if release is None:
        tables = newest_index_versions(session.lake)
        if not tables:
            raise NotFound("nothing is indexed yet: run `knowledge index`")
        return tables, releases[-1].ranker if releases else None
    found = {each.release: each for each in releases}
    if release not in found:
        known = ", ".join(map(str, found)) or "none"
        raise NotFound(f"there is no release {release}; kept releases: {known}")
    return found[release].tables, found[release].ranker


def _assign_search_types(
    questions: Sequence[GoldenQuestion], types: Sequence[str] | None
) -> Iterator[GoldenQuestion]:
    if not types:
        yield from questions
    for type_ in dict.fromkeys(types or ()):
        if type_ not in get_args(SearchType):
            raise WrongUsage(f"found --type {type_}; allowed: {', '.join(get_args(SearchType))}")
        yield from (replace(question, type=cast("SearchType", type_)) for question in questions)

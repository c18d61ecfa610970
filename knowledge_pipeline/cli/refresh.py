"""`init`, `index`, `refresh` and `reindex`: bring the store up to date, and say what was done.

With `--dagster`, a process of its own refreshes: the command line does not import Dagster.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from knowledge_pipeline import errors
from knowledge_pipeline.cli import exit_codes
from knowledge_pipeline.cli.screen import one_line
from knowledge_pipeline.cli.session import (
    AllowEmpty,
    Dagster,
    Documents,
    Relist,
    Session,
    Sources,
    TokenVariable,
    WrongUsage,
    example,
    resolve_config,
)
from knowledge_pipeline.errors import ConfigError, InvalidQuery, KnowledgeError, SourceRefused
from knowledge_pipeline.extras import require_modules
from knowledge_pipeline.text import format_share, truncate

if TYPE_CHECKING:
    from knowledge_pipeline.config.sources import SourceConfig
    from knowledge_pipeline.stages.context import RefreshContext, RefreshOptions, RefreshOutcome, Stats


@example("""
    knowledge init
    knowledge init ../service --config knowledge.yaml
""")
def init(
    session: Session,
    folder: Annotated[
        Path, Argument(metavar="FOLDER", help="The folder to index.", show_default=False)
    ] = Path(),
) -> None:
    """Write a knowledge.yaml that declares what a folder holds.

    Writes it into the folder, or to --config. Nothing is indexed yet.
    """
    from knowledge_pipeline.config.edit import write_initial_config
    from knowledge_pipeline.config.file import load_settings

    path = resolve_config(session.config) if session.config else folder / "knowledge.yaml"
    write_initial_config(path, folder)
    sources = load_settings(path).sources
    declared = [{"id": source.id, "type": source.type} for source in sources]
    session.screen.print_json({"config": str(path.absolute()), "sources": declared})
    session.screen.print_text(f"Wrote {path}")
    session.screen.print_table([{"source": source.id, "type": source.type} for source in sources])
    option = "" if path.absolute().parent == Path.cwd() else f" --config {path}"
    step = f"knowledge index{option}" if sources else "knowledge index --repo PATH_OR_URL"
    session.screen.print_text(f"{'' if sources else 'Found nothing to index. '}Next: {step}")


@example("""
    knowledge index
    knowledge index --repo .
    knowledge index --words
    knowledge index --repo https://github.com/pallets/flask --branch main
""")
def index(
    session: Session,
    repo: Annotated[
        str | None,
        Option(
            metavar="REPOSITORY",
            help="Add this repository's sources first: a folder, an address, github.com/org/repo, or "
            "org/repo@branch.",
        ),
    ] = None,
    branch: Annotated[
        str | None, Option(metavar="NAME", help="Read this branch of --repo, as committed.")
    ] = None,
    token_env: TokenVariable = None,
    words: Annotated[
        bool, Option("--words", help="Stop once words can be searched; `knowledge refresh` adds the rest.")
    ] = False,
    dagster: Dagster = False,
) -> int:
    """Index a repository, or all configured sources, and publish a release.

    With --repo, adds sources for what the repository holds (code, documents, OpenAPI
    files, history) to knowledge.yaml, and indexes them. Creates the file in the current
    folder if there is none. Running it again indexes only what changed.

    Words can be searched long before every text has a vector. With --words it ends there:
    ask at once, and let `knowledge refresh` compute the vectors and the code graph.
    """
    from knowledge_pipeline.stages.context import ORDINARY_REFRESH

    if words and dagster:
        raise WrongUsage("--words ends before the stages that --dagster records: give one of them")
    if repo is None:
        if branch or token_env:
            raise WrongUsage("--branch and --token-env need --repo")
        return run_refresh(session, (), ORDINARY_REFRESH, dagster=dagster, words_only=words)
    from knowledge_pipeline.cli.source_entries import RepositoryLocation, declare_sources

    repository = RepositoryLocation.parse(repo, branch, token_env)
    session.screen.print_note(f"Inspecting {repository.location}")
    declared, ids = declare_sources(session, repository)
    if declared:
        session.screen.print_note(f"Added {', '.join(declared)} to {session.config_path}")
    return run_refresh(session, ids, ORDINARY_REFRESH, dagster=dagster, declared=declared, words_only=words)


@example("""
    knowledge refresh
    knowledge refresh --source flask-code --source flask-docs
    knowledge refresh --document tickets/issue/10002
    knowledge refresh --dagster
""")
def refresh(
    session: Session,
    source: Sources = None,
    document: Documents = None,
    relist: Relist = False,
    dagster: Dagster = False,
    allow_empty: AllowEmpty = False,
) -> int:
    """Bring sources up to date, and publish a release of what changed.

    Reads, chunks, embeds and indexes what changed. A source that fails keeps its last
    content, and the others continue.
    """
    from knowledge_pipeline.stages.context import RefreshOptions

    documents = tuple(document or ())
    if unclear := [document for document in documents if not document.partition("/")[2]]:
        raise InvalidQuery(
            f"--document {unclear[0]!r} names no document: write SOURCE/URI, as in jira/issue/10002"
        )
    ids = [*(source or ()), *(document.partition("/")[0] for document in documents)]
    options = RefreshOptions(allow_empty=allow_empty, relist=relist, documents=documents)
    return run_refresh(session, ids, options, dagster=dagster)


@example("""
    knowledge push notes guides/deploy.md
    knowledge push notes out/2.4.md --id releases/2.4.md
    knowledge push notes --delete releases/2.3.md
""")
def push(
    session: Session,
    source: Annotated[str, Argument(metavar="SOURCE", help="The id of a source of type push.")],
    file: Annotated[
        list[Path] | None, Argument(metavar="FILE...", help="Texts in UTF-8.", show_default=False)
    ] = None,
    id: Annotated[
        str | None, Option(metavar="ID", help="The id of the one file.  [default: its path, as written]")
    ] = None,
    delete: Annotated[
        list[str] | None, Option(metavar="ID", help="Delete this document (repeatable).")
    ] = None,
    dagster: Dagster = False,
) -> int:
    """Add, replace or delete documents of a source of type push.

    What is pushed is kept at once, and the source is refreshed. A file replaces the
    document with the same id.
    """
    from knowledge_pipeline.contract.requests import PushRequest
    from knowledge_pipeline.pushed import delete_document, push_document
    from knowledge_pipeline.stages.context import ORDINARY_REFRESH

    files = file or []
    if not (files or delete) or (id is not None and len(files) != 1):
        raise WrongUsage("give FILE or --delete ID; --id is for one file")
    [declared] = session.settings.select_sources([source])
    requests = [PushRequest(source, id or path.as_posix(), _read_pushed(path)) for path in files]
    for request in requests:
        push_document(session.lake, declared, request)
    for uri in delete or ():
        delete_document(session.lake, declared, uri)
    return run_refresh(session, [source], ORDINARY_REFRESH, dagster=dagster)


def _read_pushed(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text in UTF-8"
        raise InvalidQuery(f"{path} cannot be read: {reason}") from None


@example("""
    knowledge reindex --source flask-code
    knowledge reindex --source code
    knowledge reindex --reembed
""")
def reindex(
    session: Session,
    source: Sources = None,
    full: Annotated[
        bool, Option("--full", help="Accepted for scripts; this command is always full.")
    ] = False,
    reembed: Annotated[bool, Option("--reembed", help="Compute every vector again as well.")] = False,
    dagster: Dagster = False,
    allow_empty: AllowEmpty = False,
) -> int:
    """Rebuild everything, as if nothing were stored.

    Queries see the last release until the new one is complete. Vectors of unchanged
    texts are reused, unless --reembed is given.
    """
    from knowledge_pipeline.stages.context import RefreshOptions

    del full
    options = RefreshOptions(full=True, reembed=reembed, allow_empty=allow_empty)
    return run_refresh(session, source or (), options, dagster=dagster)


def run_refresh(
    session: Session,
    ids: Sequence[str],
    options: RefreshOptions,
    *,
    dagster: bool = False,
    declared: Sequence[str] = (),
    words_only: bool = False,
) -> int:
    """Refresh sources (all without ids), and return the exit code; programs see the `declared` ids.

    With `words_only`, vectors and the code graph are left to the next refresh.
    Where all are refreshed, the members of organisations are discovered first; where that fails, those known
    before are refreshed, and the command fails in the end.
    """
    problems: list[str] = []
    if ids and session.settings.unlisted_organisations:  # perhaps listed by another machine
        from knowledge_pipeline.store.listings import fetch_listings

        fetch_listings(session.settings)
        session.use_config(session.config_path)
    if session.settings.organisations and not ids:
        from knowledge_pipeline.cli.sources import discover_members

        problems = [discovery.problem for discovery in discover_members(session) if discovery.problem]
        if problems and not session.settings.sources:
            raise SourceRefused("; ".join(problems))
    if not session.settings.sources:
        raise ConfigError(
            f"{session.config_path} declares no source: run `knowledge index --repo PATH_OR_URL`, "
            "or `knowledge sources add`"
        )
    sources = session.settings.select_sources(ids, or_types=not options.documents)
    if dagster:
        code = _run_recorded_refresh(session, [source.id for source in sources], options)
    else:
        code = _refresh(session, sources, options, declared=declared, words_only=words_only)
    return code or (exit_codes.FAILED if problems else exit_codes.SUCCESS)


def _refresh(
    session: Session,
    sources: Sequence[SourceConfig],
    options: RefreshOptions,
    *,
    declared: Sequence[str],
    words_only: bool,
) -> int:
    from knowledge_pipeline.cli.progress import show_progress
    from knowledge_pipeline.stages.unchanged import UnchangedRefresh

    unchanged = UnchangedRefresh(session.lake, session.settings, sources, options)
    if outcome := unchanged.recall():
        return _show_outcome(session, outcome, declared=declared)
    if session.settings.evaluation.questions:
        from knowledge_pipeline.evaluation.scores import require_measures

        require_measures()  # now, rather than at the release
    from knowledge_pipeline.extensions.questions import suggest_questions
    from knowledge_pipeline.stages import pipeline
    from knowledge_pipeline.stages.embeddings import estimate_rest_s
    from knowledge_pipeline.store.release import find_live_release

    width = len(str(len(sources)))
    numbered = {
        source.id: f"{number:{width}}/{len(sources)} {source.id}" if len(sources) > 1 else source.id
        for number, source in enumerate(sources, 1)
    }
    is_first = find_live_release(session.lake) is None

    def report_words(contexts: Sequence[RefreshContext]) -> None:
        if not (session.as_json or session.quiet):
            questions = suggest_questions(session.lake, sources) if is_first else [""]
            question = next(iter(questions), 'knowledge search "a question, or a name"')
            session.screen.print_note(describe_words(estimate_rest_s(contexts), question))

    with show_progress(session.screen) as report_for:
        outcome = pipeline.refresh(
            *(session.lake, session.settings, sources, options),
            report=lambda source: report_for(numbered[source.id]),
            report_release=lambda release: session.screen.print_note(_describe_early_release(release)),
            report_words=report_words,
            words_only=words_only,
            listings=unchanged.listings,
        )
    if not words_only:
        unchanged.keep(outcome)
    code = _show_outcome(session, outcome, declared=declared)
    has_first_rows = is_first and outcome.release and outcome.release.version
    if questions := suggest_questions(session.lake, sources) if has_first_rows else ():
        session.screen.print_text("\n".join(["Try:", *(f"  {question}" for question in questions)]))
    return code


_RECORD_MODULE = "knowledge_pipeline.defs.recorded_refresh"


def _run_recorded_refresh(session: Session, sources: Sequence[str], options: RefreshOptions) -> int:
    """Refresh sources as a recorded run, and return the exit code; raises what kept it from starting."""
    require_modules("--dagster", "dagster")
    session.screen.print_note(f"Recording {len(sources)} sources in Dagster")
    request = {"config": str(session.config_path), "sources": list(sources), "options": options.as_config()}
    exit_codes.restore_interrupt_handler()
    command = [sys.executable, "-m", _RECORD_MODULE, json.dumps(request)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:  # noqa: S603 - our own module
        while True:
            try:
                printed, _ = child.communicate()
                break
            except KeyboardInterrupt:  # the run ends by itself
                if not sys.stdin.isatty():  # a terminal has interrupted the child already
                    child.send_signal(signal.SIGINT)
    code = child.returncode
    if code in (exit_codes.INTERRUPTED, -signal.SIGINT):
        return exit_codes.INTERRUPTED
    if code != exit_codes.SUCCESS:
        raise KnowledgeError(f"the recorded run ended with exit code {code}: see its messages above")
    response = json.loads(printed)
    if "error" in response:
        raise getattr(errors, response["kind"], KnowledgeError)(response["error"])
    failure = response["failure"]
    session.screen.print_json(response)
    if failure and not session.as_json:
        exit_codes.print_error(failure, kind="", code=exit_codes.FAILED, as_json=False)
    session.screen.print_text(f"The run is recorded: `dagster dev` shows it as {response['run'][:8]}.")
    return exit_codes.FAILED if failure else exit_codes.SUCCESS


_MAX_REASONS_SHOWN = 5
_RELEASE_KEY = "release"  # under which the outcome reports a failure of the release
_COUNT_FIELDS = ("seen", "added", "changed", "removed", "unchanged")
_NUMBERS = ("seen", "added", "changed", "removed", "skipped", "chunks", "embedded")


def _show_outcome(session: Session, outcome: RefreshOutcome, *, declared: Sequence[str]) -> int:
    """Show what was done, and return the exit code; programs also get the ids of new sources."""
    from knowledge_pipeline.stages.context import describe_failures

    by_source: dict[str, dict[str, Stats]] = {}
    for stats in outcome.stats:
        by_source.setdefault(stats.source, {})[stats.stage] = stats
    summaries = [_summarize_source(source, stages) for source, stages in by_source.items()]
    release, screen = outcome.release, session.screen
    if screen.as_json:
        live = None
        if release and release.version:
            counts = {"release": release.version, "new": release.has_changes, "rows": release.rows}
            live = {**counts, "notes": list(release.notes)}
        project = {"config": str(session.config_path), "declared": list(declared)}
        failures = describe_failures(outcome.failures)
        screen.print_json({**project, "sources": summaries, "failures": failures, "release": live})
    else:
        columns = ("source", *_NUMBERS)
        rows = [{name: summary[name] for name in columns} for summary in summaries]
        for row, summary in zip(rows, summaries, strict=True):  # `6.1 = snapshot 1.2 + chunks 0.8 + ...`
            seconds: Mapping[str, float] = summary["seconds"]
            parts = [f"{stage} {spent:.1f}" for stage, spent in seconds.items() if spent >= 0.05]
            total = f"{sum(seconds.values()):.1f}"
            row["seconds"] = f"{total} = {' + '.join(parts)}" if len(parts) > 1 else total
        screen.print_table(rows, right_aligned=_NUMBERS)
        for summary in summaries:
            _show_notes(session, summary)
        for source, error in outcome.failures.items():
            exit_codes.print_error(f"{source}: {error}", kind="", code=0, as_json=False)
        screen.print_text(_format_release(release))
    # a release is refused because of failed sources, so those decide
    of_sources = [error for source, error in outcome.failures.items() if source != _RELEASE_KEY]
    return exit_codes.exit_code_of_failures(of_sources or outcome.failures.values())


def _describe_early_release(release: Stats) -> str:
    progress = f"{format_share(release.embedded_share)} of them embedded"
    if release.unembedded == release.rows:
        progress = "words find them, and vectors follow"
    return f"Release {release.version} is live: {release.rows:,} chunks; {progress}."


def describe_words(seconds: float | None, question: str = "") -> str:
    """That every source answers by its words, with a command line to try, and how long the vectors take."""
    lines = ["Every source can be searched by its words now."]
    if seconds is not None:
        rough = f"{round(seconds / 60)} min" if seconds < 5400 else f"{round(seconds / 3600)} h"
        if seconds < 90:  # as exact as an estimate is
            rough = f"{max(10, 10 * round(seconds / 10))} s"
        lines.append(f"The vectors take about {rough}.")
    if question:  # on a line of its own: a terminal with bars wraps long ones
        lines += ["Try, in another terminal:", f"  {question}"]
    return "\n".join(lines)


def _summarize_source(source: str, stages: Mapping[str, Stats]) -> dict[str, Any]:
    skipped, findings, notes = Counter[str](), Counter[str](), Counter[str]()
    for stats in stages.values():
        skipped.update(stats.skipped)
        findings.update(stats.found)
        notes.update(stats.notes)
    embedded = stages.get("embeddings")  # none where words alone were indexed
    return {
        "source": source,
        **{name: getattr(stages["snapshot"], name) for name in _COUNT_FIELDS},
        "skipped": skipped.total(),
        "skipped_reasons": dict(skipped.most_common()),
        "chunks": stages["chunks"].rows,
        "embedded": embedded.added + embedded.changed if embedded else 0,
        "tokens": embedded.tokens if embedded else 0,
        "cost": embedded.cost if embedded else 0.0,
        "found": dict(findings.most_common()),
        "notes": dict(notes.most_common()),
        "seconds": {stage: stats.seconds for stage, stats in stages.items()},
    }


def _show_notes(session: Session, summary: Mapping[str, Any]) -> None:
    source, screen = summary["source"], session.screen
    reasons: Mapping[str, int] = summary["skipped_reasons"]
    if screen.verbose and reasons:
        from knowledge_pipeline.store.filters import is_null

        type_ = session.lake.list_stored_sources()[source]
        tables: tuple[Any, ...] = (session.lake.snapshot(type_, source), session.lake.chunks(type_, source))
        parts = [table.read_rows(["uri", "skipped"], ~is_null("skipped")).to_pylist() for table in tables]
        for uri, reason in sorted((row["uri"], row["skipped"]) for part in parts for row in part):
            screen.print_text(f"{source}: skipped {uri}: {one_line(reason)}")
    elif reasons:
        for reason, count in list(reasons.items())[:_MAX_REASONS_SHOWN]:
            screen.print_text(f"{source}: skipped {count:,}: {truncate(one_line(reason), 200)}")
        rest = list(reasons.values())[_MAX_REASONS_SHOWN:]
        if rest:
            others = f"{len(rest)} other reasons (--verbose lists all)"
            screen.print_text(f"{source}: skipped {sum(rest):,} for {others}")
    for title, counts in (("sanitizer found", summary["found"]), ("note", summary["notes"])):
        if counts:
            shown = list(counts.items())[: None if screen.verbose else _MAX_REASONS_SHOWN]
            listed = ", ".join(f"{one_line(name)} {count:,}" for name, count in shown)
            rest = len(counts) - len(shown)
            others = f", and {rest} others (--verbose lists all)" if rest else ""
            screen.print_text(f"{source}: {title}: {listed}{others}")


def _format_release(release: Stats | None) -> str:
    if release is None:
        return "Nothing new was released: the last release stays live."
    if not release.version:
        return "Nothing is released: there is nothing to search yet."
    if release.notes:
        return "".join(f"{note[:1].upper()}{note[1:]}." for note in release.notes)
    rows, rest = f"{release.rows:,} rows", ""
    if release.unembedded:
        rest = (
            f" {release.unembedded:,} have no vector yet: words find them, and `knowledge refresh` goes on."
        )
    if not release.has_changes:
        return f"Nothing changed: release {release.version} stays live ({rows}).{rest}"
    return f"Release {release.version} is live ({rows}).{rest}"

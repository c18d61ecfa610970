"""Commits, pull requests and tickets as questions: their titles ask for the files that were changed. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from knowledge_pipeline.contract.types import SourceType
from knowledge_pipeline.evaluation.golden import GoldenAnswer, GoldenQuestion
from knowledge_pipeline.file_roles import classify_file
from knowledge_pipeline.records import Mention
from knowledge_pipeline.stages.tuning.pairs import Pair, PairKind, is_question

MAX_FILES = 5  # that a change may touch besides tests: a wider one answers no question
File = tuple[str, str]
"""Source and path of a file of code."""

_KINDS: Mapping[SourceType, PairKind] = {
    "git_history": "commit",
    "github_pr": "pull_request",
    "github_issues": "ticket",
    "jira": "ticket",
}
TYPES = tuple(_KINDS)
"""Source types whose documents are changes, or say why something was changed."""

_DONE_BY = ("closes", "implements")  # how a change names the issue of a repository that it settles
_PREFIX = re.compile(r"^(?:[a-z]+(?:\([^()]*\))?!?:|\[[^\[\]]*\]|[A-Z][A-Z0-9_]+-\d+:?)\s+")
_NUMBER = re.compile(r"(?<!\s)\s*\(?[#!]\d+\)?")
_ROUTINE = re.compile(
    r"^(?:merge|revert|bump|release|version|prepare|update (?:the )?(?:changelog|depend|lock|copyright)"
    r"|upgrade|pin |drop support|fix typos?|typos?|reformat|lint|black|v?\d+\.\d+)\b"
    r"|\[bot\]|pre-commit|dependabot|requirements",
    re.I,
)


@dataclass(frozen=True, slots=True)
class TracedDocument:
    """A commit, a pull request or a ticket, with what it changed and mentions."""

    type: SourceType
    source: str
    uri: str
    title: str
    made_at: datetime | None
    names: tuple[str, ...]
    mentions: tuple[Mention, ...]
    is_merge: bool = False

    @property
    def kind(self) -> PairKind:
        """The kind of the pairs that it gives."""
        return _KINDS[self.type]

    def find_changed_files(self, files: Mapping[str, Sequence[File]]) -> list[File]:
        """The indexed files of code that it changed; `files` has them by their names."""
        changed = (mention.name for mention in self.mentions if mention.kind == "changes")
        return sorted({file for name in changed for file in files.get(name, ())})


def iter_history_pairs(
    documents: Iterable[TracedDocument], files: Mapping[str, Sequence[File]]
) -> Iterator[Pair]:
    """Pairs of changes with the files that they changed, and of tickets with those of their changes.

    Args:
        files: name of a file of code, as mentions spell it -> where it is indexed.
    """
    documents = list(documents)
    changes = [each for each in documents if each.kind != "ticket"]
    for change in changes:
        if not change.is_merge:
            yield from _pair(change, change.find_changed_files(files))
    tickets = {name: each for each in documents if each.kind == "ticket" for name in each.names}
    changed_for: defaultdict[str, set[File]] = defaultdict(set)
    for change in changes:
        for mention in change.mentions:
            ticket = tickets.get(mention.name)
            if ticket and (ticket.type == "jira" or mention.kind in _DONE_BY):
                changed_for[f"{ticket.source}:{ticket.uri}"].update(change.find_changed_files(files))
    for ticket in dict.fromkeys(tickets.values()):
        yield from _pair(ticket, sorted(changed_for[f"{ticket.source}:{ticket.uri}"]))


def date_files(
    documents: Iterable[TracedDocument], files: Mapping[str, Sequence[File]]
) -> dict[File, datetime]:
    """When each file was last changed by a commit or a pull request, as far as they are indexed."""
    dates: dict[File, datetime] = {}
    for each in documents:
        for file in each.find_changed_files(files) if each.made_at else ():
            if each.made_at and (file not in dates or dates[file] < each.made_at):
                dates[file] = each.made_at
    return dates


def clean_title(title: str) -> str:
    """A title as a question: without its prefix, its ticket's key and its numbers."""
    shorter = title.strip()
    while (found := _PREFIX.match(shorter)) is not None:
        shorter = shorter[found.end() :]
    return _NUMBER.sub("", shorter).strip().rstrip(".")


def _pair(document: TracedDocument, changed: Sequence[File]) -> Iterator[Pair]:
    """The title, and the changed files of one source that are no tests; none if it says little."""
    text = clean_title(document.title)
    answers = [file for file in changed if classify_file(file[1]) == "source"]
    sources = {source for source, _ in answers}
    if len(sources) != 1 or len(answers) > MAX_FILES or not is_question(text) or _ROUTINE.search(text):
        return
    places = tuple(GoldenAnswer(path) for _, path in answers)
    question = GoldenQuestion(text, places, "code", {"sources": tuple(sources)})
    yield Pair(document.kind, question, f"{document.source}:{document.uri}", document.made_at)

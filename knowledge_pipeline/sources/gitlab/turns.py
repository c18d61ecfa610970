"""What merge requests and issues of GitLab say alike: comments, closing words, approvals."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from urllib.parse import unquote

from knowledge_pipeline.config.connections.repositories import GitlabConnection
from knowledge_pipeline.sources.code_host import Node, author_name, build_mentions
from knowledge_pipeline.sources.conversation import Turn
from knowledge_pipeline.sources.markdown_cleaning import clean_markdown
from knowledge_pipeline.times import parse_time

_UPLOAD = re.compile(r"(?<=\]\()(?=/uploads/[0-9a-f]{32}/)")
_UPLOADED = re.compile(r"([0-9a-f]{32})/([^\s()<>\[\]\"'`|\\?#/]{1,300})")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_INLINE_CODE = re.compile(r"(?<!`)`[^`]{1,500}`(?!`)")
_REFERENCE = (
    r"(?:[\w./-]{0,250}#\d+|https?://[^\s()]{1,300}/-/(?:issues|work_items)/\d+"
    r"|(?-i:[A-Z][A-Z0-9_]{1,30}-\d+))"
)
_CLOSING = re.compile(
    r"\b(?:clos(?:e[sd]?|ing)|fix(?:e[sd]|ing)?|resolv(?:e[sd]?|ing)|implement(?:s|ed|ing)?):?[ \t]{1,5}"
    rf"(?P<closed>(?:(?:issues?[ \t]{{1,5}})?{_REFERENCE}(?:\s{{0,3}},?\s{{0,3}}(?:and\s{{1,3}})?))+)",
    re.IGNORECASE,
)


def clean_gitlab_markdown(markdown: str, connection: GitlabConnection) -> str:
    """GitLab Flavored Markdown as clean Markdown; what was uploaded is linked to where it lies."""
    return clean_markdown(_UPLOAD.sub(lambda _: connection.location, markdown))


def find_uploads(text: str, connection: GitlabConnection) -> Iterator[tuple[str, str]]:
    """Secret and name of each file of the project that a clean text links to."""
    prefix = f"{connection.location}/uploads/"
    for part in text.split(prefix)[1:]:
        if found := _UPLOADED.match(part):
            yield found[1], unquote(found[2])


def iter_comment_turns(notes: Sequence[Node], connection: GitlabConnection) -> Iterator[Turn]:
    """The comments; each thread together, the threads by their first comment."""
    threads: dict[str, list[Node]] = {}
    for note in notes:
        threads.setdefault((note["discussion"] or note)["id"], []).append(note)
    for thread in threads.values():
        place = _format_location(thread)
        for note in thread:
            kind = "review comment" if place else "comment"
            text, at = clean_gitlab_markdown(note["body"], connection), parse_time(note["createdAt"])
            yield Turn(kind, text, author_name(note), at, place, note["url"])


def _format_location(thread: Sequence[Node]) -> str | None:
    """What the remarks of a thread are about: "src/auth.py line 12 (resolved)"; None: not the code."""
    position = thread[0]["position"]
    if not position:
        return None
    line = position["newLine"] or position["oldLine"]
    resolvable = [note["resolved"] for note in thread if note["resolvable"]]
    done = " (resolved)" if resolvable and all(resolvable) else ""
    return f"{position['filePath']}{f' line {line}' if line else ''}{done}"


def find_closed_issues(description: str | None, connection: GitlabConnection) -> list[dict[str, str]]:
    """The issues that a description closes, by the words that GitLab's default closing pattern has.

    Source: https://docs.gitlab.com/user/project/issues/managing_issues/#default-closing-pattern
    """
    closed = " ".join(found["closed"] for found in _CLOSING.finditer(_strip_code(description or "")))
    references = re.findall(_REFERENCE, closed)
    return build_mentions("closes", (_qualify_reference(each, connection) for each in references))


def _strip_code(text: str) -> str:
    lines: list[str] = []
    fence = ""
    for line in text.splitlines():
        found = _FENCE.match(line)
        if fence:
            fence = "" if line.strip().startswith(fence) else fence
        elif found:
            fence = found[1]
        else:
            lines.append(_INLINE_CODE.sub(" ", line))
    return "\n".join(lines)


def _qualify_reference(reference: str, connection: GitlabConnection) -> str:
    """An issue as it is written everywhere: "group/name#12"; one of another service stays as it is."""
    site = f"{connection.url.rstrip('/')}/"
    if reference.startswith(site) and not reference.startswith(f"{site}groups/"):
        project, _, rest = reference.removeprefix(site).partition("/-/")
        return f"{project}#{rest.rpartition('/')[2]}"
    project, hash_sign, number = reference.partition("#")
    if not hash_sign:
        return reference
    if "/" not in project:  # of the same group, or the same project
        group, _, name = connection.project.rpartition("/")
        project = f"{group}/{project or name}"
    return f"{project}#{number}"


def iter_approval_turns(approvers: Iterable[Node]) -> Iterator[Turn]:
    """Who approved it; GitLab does not tell when."""
    for each in approvers:
        yield Turn("review", "Approved.", author_name({"author": each}))

"""Merge requests, issues, releases and snippets of a project of GitLab, as documents."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import datetime
from typing import Any, ClassVar
from urllib.parse import quote

from knowledge_pipeline.config.connections import GitlabConnection
from knowledge_pipeline.connectors.base import ListedSource, build_revision, format_too_large
from knowledge_pipeline.connectors.conversations import (
    MAX_ASSETS,
    ChangedFiles,
    ConversationFilters,
    FileDiff,
    Node,
    ReleaseSource,
    Turn,
    author_name,
    build_mentions,
    is_incomplete,
    list_changed_files,
)
from knowledge_pipeline.connectors.gitlab.client import GitlabClient
from knowledge_pipeline.connectors.gitlab.conversations import (
    PERSON_FIELDS,
    GitlabConversations,
    clean_gitlab_markdown,
    find_closed_issues,
    iter_comment_turns,
)
from knowledge_pipeline.connectors.gitlab.permissions import UNREADABLE, read_snippet_readers
from knowledge_pipeline.connectors.permissions import Permissions
from knowledge_pipeline.file_languages import detect_language
from knowledge_pipeline.records import Document, Item
from knowledge_pipeline.times import parse_time

_SNIPPET_FORMAT_VERSION = "1"  # changes whenever the same responses may make another document
_DEFAULT_MAX_BYTES = 1_000_000  # of a file
_SNIPPET_FIELDS = """
  title description createdAt updatedAt webUrl author { name login: username }
  blobs { hasUnretrievableBlobs nodes { path text: rawPlainData } }
"""
_RELEASES_SELECTION = f"""
listed: releases(first: 50, after: $after, sort: RELEASED_AT_DESC) {{
  count @include(if: $first)
  pageInfo {{ hasNextPage endCursor }}
  nodes {{
    tag: tagName name notes: description createdAt publishedAt: releasedAt isUpcoming: upcomingRelease
    author {{ name login: username }} commit {{ sha }}
    assets {{ links(first: {MAX_ASSETS}) {{ pageInfo {{ hasNextPage }} nodes {{ name }} }} }}
  }}
}}"""


class GitlabMergeRequests(GitlabConversations):
    """One document per merge request: "merge_request/12".

    API: https://docs.gitlab.com/api/graphql/reference/#mergerequest
    """

    kind = "merge_request"
    number_prefix = "!"
    field = "mergeRequests"
    enum_types = ("MergeRequestState", "MergeRequestSort")
    batch_size = 20
    default_state = "merged"
    default_since = "180 days"
    # GitLab has no state for all that is no longer open
    state_values: ClassVar = {"open": "opened", "closed": "all", "merged": "merged", "all": "all"}
    listing_fields = "state mergedAt mergeCommitSha"
    detail_fields = (
        "draft mergedAt mergeCommitSha diffHeadSha sourceBranch targetBranch "
        f"diffStats {{ path additions deletions }} approvedBy {{ nodes {PERSON_FIELDS} }}"
    )

    def is_wanted(self, node: Node, oldest: datetime) -> bool:
        """Of the wanted state, within the span."""
        is_open = node["state"] not in ("closed", "merged")
        return not (is_open and self._state == "closed") and super().is_wanted(node, oldest)

    def to_item(self, node: Node) -> Item:
        """Those that were merged without a merge commit have a mark: they are related by another commit."""
        item, is_merged = super().to_item(node), node["mergedAt"] and not node["mergeCommitSha"]
        return replace(item, revision=f"{item.revision}+head") if is_merged else item

    def list_changed_paths(self, node: Node) -> list[str]:
        """All of them, where GitLab has computed the difference."""
        return [file["path"] for file in node["diffStats"] or ()]

    def list_file_diffs(self, uri: str, node: Node) -> Iterator[FileDiff]:
        """API: https://docs.gitlab.com/api/merge_requests/#list-merge-request-diffs."""
        project = quote(self.connection.project, safe="")
        path = f"projects/{project}/merge_requests/{node['number']}/diffs"
        for file in list_changed_files(self._client, path, uri):
            anchor = hashlib.sha1(file["new_path"].encode(), usedforsecurity=False).hexdigest()
            yield FileDiff(file["new_path"], file.get("diff") or "", f"{node['url']}/diffs#{anchor}")

    def iter_reply_turns(self, node: Node) -> Iterator[Turn]:
        """Changed files, comments, approvals."""
        yield Turn("changed files", _build_changed_files(node).text, url=f"{node['url']}/diffs")
        yield from iter_comment_turns(node["notes"], self.connection)
        approvers: list[Node] = node["approvedBy"]["nodes"] if node["approvedBy"] else []
        for approver in approvers:
            yield Turn("review", "Approved.", author_name({"author": approver}))  # when, GitLab does not say

    def build_metadata(self, node: Node) -> dict[str, Any]:
        """Facts, branches, sizes, files, and what it closes."""
        return {
            **self.build_common_metadata(node),
            "draft": node["draft"],
            "base": node["targetBranch"],
            "head": node["sourceBranch"],
            "merged_at": node["mergedAt"],
            # in a project of fast-forward merges, the last commit of the branch is that of the target
            "merge_commit": node["mergeCommitSha"] or (node["diffHeadSha"] if node["mergedAt"] else None),
            **_build_changed_files(node).metadata,
            "mentions": find_closed_issues(node["body"], self.connection),
        }


def _build_changed_files(node: Node) -> ChangedFiles:
    files: list[Node] = node["diffStats"] or []
    added, deleted = (sum(file[name] for file in files) for name in ("additions", "deletions"))
    return ChangedFiles(files, len(files), added, deleted)


class GitlabIssues(GitlabConversations):
    """One document per issue: "issue/12". Confidential ones are not taken.

    API: https://docs.gitlab.com/api/graphql/reference/#issue
    """

    kind = "issue"
    field = "issues"
    enum_types = ("IssuableState", "IssueSort")
    batch_size = 50
    default_state = "all"
    default_since = "365 days"
    state_values: ClassVar = {"open": "opened", "closed": "closed", "all": "all"}
    listing_fields = "confidential"
    detail_fields = "type closedAt confidential closedAsDuplicateOf { reference(full: true) }"

    def iter_reply_turns(self, node: Node) -> Iterator[Turn]:
        """Comments."""
        return iter_comment_turns(node["notes"], self.connection)

    def build_metadata(self, node: Node) -> dict[str, Any]:
        """Facts, and what it is a duplicate of."""
        duplicate, kind = node["closedAsDuplicateOf"], node["type"]
        return {
            **self.build_common_metadata(node),
            "issue_type": kind.lower() if kind else None,
            "mentions": build_mentions("duplicates", [duplicate["reference"]] if duplicate else []),
        }


class GitlabReleases(ReleaseSource[GitlabClient]):
    """The releases of one project; those of the future only where they are wanted.

    API: https://docs.gitlab.com/api/graphql/reference/#release
    """

    def __init__(self, connection: GitlabConnection, filters: ConversationFilters) -> None:
        super().__init__(GitlabClient(connection, "releases"), filters, connection.project)
        self._connection = connection

    def iter_releases(self) -> Iterator[Node]:
        """The last released first; 50 a call. REST tells whether they are shown: GraphQL would list none."""
        path = f"projects/{quote(self._connection.project, safe='')}/releases"
        if isinstance(self._client.get_or_status(path, {"per_page": 1, "page": 1}), int):
            raise self._client.documents_hidden()
        listed = total = 0
        for page in self._client.iter_pages("$first: Boolean!", _RELEASES_SELECTION, {}):
            listed, total = listed + len(page["nodes"]), page.get("count", total)
            for node in page["nodes"]:
                links, commit = node["assets"]["links"], node["commit"]
                yield {
                    **node,
                    "updatedAt": node["publishedAt"],  # GitLab does not say when one was edited
                    "status": "upcoming" if node["isUpcoming"] else "released",
                    "commit": commit["sha"] if commit else None,
                    "assets": {
                        "names": [link["name"] for link in links["nodes"]],
                        "more": links["pageInfo"]["hasNextPage"],
                    },
                }
        if is_incomplete(listed, total):
            raise self._client.listing_incomplete(f"listed {listed} of {total} releases")

    def clean_text(self, markdown: str) -> str:
        """Clean Markdown, with links to uploads."""
        return clean_gitlab_markdown(markdown, self._connection)

    def build_url(self, tag: str) -> str:
        """Its page."""
        return f"{self._connection.location}/-/releases/{quote(tag, safe='')}"


class GitlabSnippets(ListedSource):
    """A document for each file, "snippet/12/parse.py", and one for a snippet's description, "snippet/12".

    The path is of a folder with the snippet's title, which is all that says what most files are for.

    API: https://docs.gitlab.com/api/graphql/reference/#snippet
    """

    def __init__(self, connection: GitlabConnection, max_bytes: int | None = None) -> None:
        self._connection = connection
        self._max_bytes = max_bytes or _DEFAULT_MAX_BYTES
        self._client = GitlabClient(connection, "snippets")

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def iter_entries(self) -> Iterator[tuple[Item, Node]]:
        """What each snippet says of itself, if anything, then its files."""
        for snippet in _iter_snippets(self._client, _SNIPPET_FIELDS, page_size=20):
            blobs = snippet.pop("blobs")
            if blobs["hasUnretrievableBlobs"]:
                raise self._client.listing_incomplete(
                    f"does not show the files of snippet {snippet['number']}"
                )
            uri = f"snippet/{snippet['number']}"
            if (snippet["description"] or "").strip():
                described = snippet | {"paths": [blob["path"] for blob in blobs["nodes"]]}
                yield Item(uri, build_revision(_SNIPPET_FORMAT_VERSION, described)), described
            for blob in blobs["nodes"]:
                file = {**snippet, "path": blob["path"], "text": blob["text"]}
                revision = build_revision(_SNIPPET_FORMAT_VERSION, file)
                size, skip = len((blob["text"] or "").encode()), None
                if not size:
                    skip = "binary file" if blob["text"] is None else "empty"
                elif size > self._max_bytes:
                    skip = format_too_large(size, self._max_bytes)
                yield Item(f"{uri}/{blob['path']}", revision, skip=skip), file

    def build_document(self, item: Item, node: Node) -> Document:
        """A file as it is; or the title as the heading, the description, and the names of the files."""
        folder = " ".join(node["title"].replace("/", " ").split())
        if "text" in node:
            path, text = f"{folder}/{node['path']}", node["text"]
            language = detect_language(path, text)
        else:
            about = clean_gitlab_markdown(node["description"], self._connection).strip()
            files = "\n".join(f"- {name}" for name in node["paths"])
            path, text, language = folder, f"# {folder}\n\n{about}\n\n{files}", "markdown"
        return Document(
            uri=item.uri,
            text=text,
            path=path,
            title=node["title"],
            language=language,
            url=node["webUrl"],
            author=author_name(node),
            last_modified=parse_time(node["updatedAt"]),
            metadata={
                "number": node["number"],
                "project": self._connection.project,
                "visibility": node["visibility"],
                "created_at": node["createdAt"],
            },
        )


def _iter_snippets(client: GitlabClient, fields: str, *, page_size: int) -> Iterator[Node]:
    selection = (
        f"listed: snippets(first: {page_size}, after: $after) {{ pageInfo {{ hasNextPage endCursor }} "
        f"nodes {{ id visibility: visibilityLevel {fields} }} }}"
    )
    for page in client.iter_pages("", selection, {}):
        for node in page["nodes"]:
            yield {**node, "number": int(node.pop("id").rpartition("/")[2])}


def read_snippet_permissions(connection: GitlabConnection, uris: Sequence[str]) -> Permissions:
    """An audience for each visibility that snippets have; one that is gone has none."""
    with closing(GitlabClient(connection, "snippets")) as client:
        listed = _iter_snippets(client, "", page_size=100)
        audiences = {str(snippet["number"]): f"snippet:{snippet['visibility']}" for snippet in listed}
        readers = read_snippet_readers(client, connection.project)
    audience_by_uri = {uri: audiences[number] for uri in uris if (number := uri.split("/")[1]) in audiences}
    problems = Counter({UNREADABLE: len(uris)} if readers is None else {})
    by_name = {f"snippet:{visibility}": [members] for visibility, members in (readers or {}).items()}
    return Permissions(by_name, audience_by_uri, problems)

"""The state of a fake GitHub: one repository with pull requests, issues, discussions
and releases, changed as people do.

Records are dictionaries with GitHub's own field names; lists within them are what GraphQL pages.
The clock is the repository's: it goes on a minute with every change.
"""

from __future__ import annotations

import base64
import hashlib
from datetime import UTC, datetime, timedelta
from typing import Any

Record = dict[str, Any]

HUNK = "@@ -1,4 +1,6 @@ def parse(text):\n     lines = text.split()\n-    return lines\n+    return lines[1:]"


def _id(kind: str, key: str) -> str:
    """Opaque, as GitHub's: "IC_a2V5"."""
    return f"{kind[:2].upper()}_{base64.urlsafe_b64encode(key.encode()).decode().rstrip('=')}"


def person(login: str | None, name: str | None = None, *, kind: str = "User") -> Record | None:
    """The author of something; None is somebody whose account is no more."""
    if login is None:
        return None
    return {"__typename": kind, "id": _id("user", login), "login": login, "name": name}


ADA = person("ada", "Ada Lovelace")
BOT = person("dependabot", kind="Bot")


class Repository:
    """`owner/name` and what is in it; `uri`s are those of the connector: "pull/1", "issue/2"."""

    def __init__(self, full_name: str, *, first_id: int = 0) -> None:
        self.full_name = full_name
        noon = datetime.now(UTC).replace(hour=12, minute=0, second=0, microsecond=0)
        self.clock = noon - timedelta(days=20)
        self.records: dict[str, Record] = {}  # by uri
        self.has_issues = self.has_discussions = True
        self.private = True
        self.visibility: str | None = None  # "internal"; None: as `private` says
        self.collaborators: list[Record] = []  # as REST has them
        self.teams: list[str] = []  # by slug
        self.people: dict[str, Record] = {}  # by node id
        self._last_number, self._last_id = 0, first_id

    def collaborate(self, *logins: str, teams: tuple[str, ...] = ()) -> None:
        """These may read it, as their addresses in `people` say; nobody else."""
        self.collaborators = [
            {
                "login": each,
                "id": 1,
                "node_id": _id("user", each),
                "permissions": {"pull": True, "push": False},
            }
            for each in logins
        ]
        self.teams = list(teams)

    def address(self, login: str, email: str) -> None:
        """The address that somebody shows."""
        record = {"__typename": "User", "id": _id("user", login), "login": login, "email": email}
        self.people[record["id"]] = record

    def pull(
        self, title: str, body: str = "", *, merged: bool = True, author: Any = ADA, **facts: Any
    ) -> str:
        """Open a pull request, and merge it."""
        record = self._conversation("PullRequest", "pull", title, body, author)
        record |= {
            "isDraft": False,
            "mergedAt": None,
            "mergeCommit": None,
            "baseRefName": "main",
            "headRefName": f"topic-{record['number']}",
            "additions": 0,
            "deletions": 0,
            "changedFiles": 0,
            "files": [],
            "patches": [],
            "reviews": [],
            "reviewThreads": [],
            "closingIssuesReferences": [],
        } | facts
        uri = f"pull/{record['number']}"
        self.records[uri] = record
        if merged:
            self.merge(uri)
        return uri

    def issue(self, title: str, body: str = "", *, author: Any = ADA, **facts: Any) -> str:
        record = self._conversation("Issue", "issues", title, body, author)
        uri = f"issue/{record['number']}"
        self.records[uri] = record | {"stateReason": None, "timelineItems": []} | facts
        return uri

    def discussion(
        self, title: str, body: str = "", *, category: str = "Q&A", author: Any = ADA, **facts: Any
    ) -> str:
        record = self._conversation("Discussion", "discussions", title, body, author)
        uri = f"discussion/{record['number']}"
        self.records[uri] = (
            record
            | {
                "closed": False,
                "stateReason": None,
                "isAnswered": False,
                "upvoteCount": 1,
                "category": {
                    "__typename": "DiscussionCategory",
                    "id": _id("category", category),
                    "name": category,
                },
            }
            | facts
        )
        return uri

    def discuss(self, uri: str, body: str, *, to: Record | None = None, **facts: Any) -> Record:
        """A comment on a discussion, or, with `to`, a reply to a comment."""
        known = {"isAnswer": False, "replies": []} | facts
        remark = self._remark(uri, "DiscussionComment", body, ADA, self._touch(uri)) | known
        (to["replies"] if to else self.records[uri]["comments"]).append(remark)
        return remark

    def answer(self, uri: str, remark: Record) -> None:
        """Mark a comment or reply as the answer."""
        self._touch(uri)
        remark["isAnswer"] = self.records[uri]["isAnswered"] = True

    def release(self, name: str, description: str = "", *, tag: str = "", **facts: Any) -> str:
        """Publish a release; `tag`, "": the next version."""
        self._last_number += 1
        tag, at = tag or f"v{self._last_number}.0", self._tick()
        sha = hashlib.sha1(tag.encode()).hexdigest()
        self.records[f"release/{tag}"] = {
            "__typename": "Release",
            "id": self._next_id("Release"),
            "number": self._last_number,
            "tagName": tag,
            "name": name,
            "description": description,
            "isDraft": False,
            "isPrerelease": False,
            **dict.fromkeys(("createdAt", "publishedAt", "updatedAt"), at),
            "author": ADA,
            "tagCommit": {"__typename": "Commit", "id": _id("commit", sha), "oid": sha},
            "releaseAssets": [],
        } | facts
        return f"release/{tag}"

    def attach(self, uri: str, *names: str) -> None:
        """Upload assets of a release."""
        self._touch(uri)
        self.records[uri]["releaseAssets"] += [
            {"__typename": "ReleaseAsset", "id": self._next_id("ReleaseAsset"), "name": name}
            for name in names
        ]

    def merge(self, uri: str) -> None:
        at = self._touch(uri)
        sha = hashlib.sha1(uri.encode()).hexdigest()
        self.records[uri] |= {"state": "MERGED", "mergedAt": at, "closedAt": at}
        self.records[uri]["mergeCommit"] = {"__typename": "Commit", "id": _id("commit", sha), "oid": sha}

    def close(self, uri: str, reason: str = "COMPLETED") -> None:
        at = self._touch(uri)
        self.records[uri] |= {"state": "CLOSED", "closed": True, "closedAt": at}
        if uri.startswith("issue/"):
            self.records[uri]["stateReason"] = reason

    def edit(self, uri: str, text: str) -> None:
        self._touch(uri)
        self.records[uri]["description" if uri.startswith("release/") else "body"] = text

    def delete(self, uri: str) -> None:
        """Pull requests too: a repository may lose one by support."""
        del self.records[uri]

    def label(self, uri: str, *names: str) -> None:
        self._touch(uri)
        self.records[uri]["labels"] = [
            {"__typename": "Label", "id": _id("label", name), "name": name} for name in names
        ]

    def comment(self, uri: str, body: str, *, author: Any = ADA, hidden: bool = False) -> Record:
        return self._said(uri, "comments", "IssueComment", body, author, hidden)

    def review(
        self, uri: str, state: str, body: str = "", *, author: Any = ADA, hidden: bool = False
    ) -> Record:
        review = self._said(uri, "reviews", "PullRequestReview", body, author, hidden)
        pending = state == "PENDING"
        return _changed(review, {"state": state, "submittedAt": None if pending else review["createdAt"]})

    def thread(self, uri: str, path: str, line: int | None, *bodies: str, author: Any = ADA) -> Record:
        """Comments on one place of the diff; none belongs to the repository's clock but the first."""
        at = self._touch(uri)
        thread: Record = {
            "__typename": "PullRequestReviewThread",
            "id": self._next_id("thread"),
            "path": path,
        }
        facts = {"path": path, "line": line, "originalLine": line, "diffHunk": HUNK, "state": "SUBMITTED"}
        thread["comments"] = [
            self._remark(uri, "PullRequestReviewComment", body, author, at) | facts | {"publishedAt": at}
            for body in bodies
        ]
        self.records[uri]["reviewThreads"].append(thread)
        return thread

    def files(self, uri: str, *paths: str) -> None:
        self._touch(uri)
        changed = [{"path": path, "additions": 3, "deletions": 1, "changeType": "MODIFIED"} for path in paths]
        counts = {"additions": 3 * len(paths), "deletions": len(paths), "changedFiles": len(paths)}
        self.records[uri] |= {"files": changed, **counts}

    def diff(self, uri: str, path: str, patch: str | None, status: str = "modified") -> None:
        """Another changed file; `patch` None: it is binary, and REST has no such key."""
        self._touch(uri)
        record = self.records[uri]
        record["files"] = [*record["files"], {"path": path, "additions": 1, "deletions": 1}]
        record["files"][-1]["changeType"] = status.upper()
        record["changedFiles"] = len(record["files"])
        counts = {"additions": 1, "deletions": 1, "changes": 2}
        file = {"sha": hashlib.sha1(path.encode()).hexdigest(), "filename": path, "status": status} | counts
        record["patches"].append(file if patch is None else file | {"patch": patch})

    def closes(self, uri: str, *issues: str) -> None:
        self._touch(uri)
        self.records[uri]["closingIssuesReferences"] += [self.records[issue] for issue in issues]

    def duplicates(self, uri: str, other: str) -> None:
        self._touch(uri)
        event = {"__typename": "MarkedAsDuplicateEvent", "id": self._next_id("event")}
        self.records[uri]["timelineItems"].append(event | {"canonical": self.records[other]})

    def by_id(self, node_id: str) -> Record | None:
        for record in self.records.values():
            if record["id"] == node_id:
                return record
            for part in (*record.get("reviewThreads", ()), *record.get("comments", ())):
                if part["id"] == node_id:
                    return part
        return None

    def _conversation(self, kind: str, place: str, title: str, body: str, author: Any) -> Record:
        self._last_number += 1
        at = self._tick()
        return {
            "__typename": kind,
            "id": self._next_id(kind),
            "number": self._last_number,
            "title": title,
            "body": body,
            "url": f"https://github.test/{self.full_name}/{place}/{self._last_number}",
            "state": "OPEN",
            "createdAt": at,
            "updatedAt": at,
            "closedAt": None,
            "milestone": None,
            "author": author,
            "labels": [],
            "comments": [],
            "repository": {"nameWithOwner": self.full_name},
        }

    def _said(self, uri: str, where: str, kind: str, body: str, author: Any, hidden: bool) -> Record:
        remark = self._remark(uri, kind, body, author, self._touch(uri))
        remark["isMinimized"] = hidden
        self.records[uri][where].append(remark)
        return remark

    def _remark(self, uri: str, kind: str, body: str, author: Any, at: str) -> Record:
        node_id = self._next_id(kind)
        url = f"{self.records[uri]['url']}#{node_id}"
        facts = {"author": author, "createdAt": at, "isMinimized": False, "url": url}
        return {"__typename": kind, "id": node_id, "body": body, **facts}

    def _touch(self, uri: str) -> str:
        at = self.records[uri]["updatedAt"] = self._tick()
        return at

    def _tick(self) -> str:
        self.clock += timedelta(minutes=1)
        return self.clock.strftime("%Y-%m-%dT%H:%M:%SZ")

    def _next_id(self, kind: str) -> str:
        self._last_id += 1
        return _id(kind, str(self._last_id))


def _changed(record: Record, facts: Record) -> Record:
    record.update(facts)
    return record

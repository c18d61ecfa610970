"""The state of a fake GitLab: one project with merge requests, issues, releases and
snippets, changed as people do.

Records are dictionaries with the field names of GitLab's GraphQL; lists within them are what it pages.
The clock is the project's: it goes on a minute with every change.
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from typing import Any

Record = dict[str, Any]

ADA: Record = {"name": "Ada Lovelace", "username": "ada"}
BOB: Record = {"name": "", "username": "bob"}


class Project:
    """`group/…/name` and what is in it; `uri`s are those of the connector: "merge_request/1", "issue/1"."""

    def __init__(self, full_path: str, site: str = "https://gitlab.test") -> None:
        self.full_path = full_path
        self.web_url = f"{site}/{full_path}"
        noon = datetime.now(UTC).replace(hour=12, minute=0, second=0, microsecond=0)
        self.clock = noon - timedelta(days=20)
        self.records: dict[str, Record] = {}  # by uri
        self.facts: Record = {
            "visibility": "private",
            "issues_access_level": "enabled",
            "merge_requests_access_level": "enabled",
            "repository_access_level": "enabled",
            **dict.fromkeys(
                ("releases_access_level", "snippets_access_level", "wiki_access_level"), "enabled"
            ),
        }
        self.members: list[Record] = []  # as REST has them
        self._last_id = 0
        self._last_iids = {"merge_request": 0, "issue": 0}

    def join(self, username: str, level: int = 30, **facts: Any) -> None:
        """Somebody becomes a member with a role: 10 guest, 20 reporter, 30 developer."""
        self.leave(username)
        told = {"username": username, "state": "active", "membership_state": "active", "access_level": level}
        self.members.append(told | facts)

    def leave(self, username: str) -> None:
        self.members = [each for each in self.members if each["username"] != username]

    def merge_request(self, title: str, description: str = "", *, merged: bool = True, **facts: Any) -> str:
        """Open a merge request, and merge it."""
        uri, record = self._conversation("merge_request", "merge_requests", title, description)
        record |= {
            "draft": False,
            "mergedAt": None,
            "mergeCommitSha": None,
            "diffHeadSha": hashlib.sha1(f"head of {uri}".encode()).hexdigest(),
            "sourceBranch": f"topic-{record['iid']}",
            "targetBranch": "main",
            "diffStats": [],
            "diffs": [],
            "approvedBy": [],
        } | facts
        if merged:
            self.merge(uri)
        return uri

    def issue(self, title: str, description: str = "", **facts: Any) -> str:
        uri, record = self._conversation("issue", "issues", title, description)
        record |= {"type": "ISSUE", "confidential": False, "closedAt": None, "closedAsDuplicateOf": None}
        record |= {"reference": f"{self.full_path}#{record['iid']}"} | facts
        return uri

    def release(self, name: str, description: str = "", *, tag: str = "", **facts: Any) -> str:
        """Publish a release; `tag`, "": the next version."""
        number = self._id()
        tag, at = tag or f"v{number}.0", self.touch("")
        self.records[f"release/{tag}"] = {
            "id": number,
            "kind": "release",
            "tagName": tag,
            "name": name,
            "description": description,
            "author": ADA,
            **dict.fromkeys(("createdAt", "releasedAt", "updatedAt"), at),
            "upcomingRelease": False,
            "commit": {"sha": hashlib.sha1(tag.encode()).hexdigest()},
            "assets": {"links": []},
        } | facts
        return f"release/{tag}"

    def attach(self, uri: str, *names: str) -> None:
        """Link assets of a release."""
        self.records[uri]["assets"]["links"] += [{"name": name} for name in names]

    def snippet(self, title: str, text: str = "", *, path: str = "snippet.md", **facts: Any) -> str:
        """A snippet with one file; more are put into its `blobs`."""
        number, at = self._id(), self.touch("")
        self.records[f"snippet/{number}"] = {
            "id": number,
            "kind": "snippet",
            "title": title,
            "description": None,
            "visibilityLevel": "private",
            "author": ADA,
            "createdAt": at,
            "updatedAt": at,
            "webUrl": f"{self.web_url}/-/snippets/{number}",
            "blobs": [{"path": path, "rawPlainData": text}],
            "unretrievable": False,
        } | facts
        return f"snippet/{number}"

    def merge(self, uri: str, *, fast_forward: bool = False) -> None:
        sha = None if fast_forward else hashlib.sha1(uri.encode()).hexdigest()
        self.records[uri] |= {"state": "merged", "mergedAt": self.touch(uri), "mergeCommitSha": sha}

    def close(self, uri: str, duplicate_of: str = "") -> None:
        at = self.touch(uri)
        self.records[uri]["state"] = "closed"
        if uri.startswith("issue/"):
            twin = self.records[duplicate_of] if duplicate_of else None
            self.records[uri] |= {"closedAt": at, "closedAsDuplicateOf": twin}

    def edit(self, uri: str, text: str) -> None:
        self.touch(uri)
        if uri.startswith("snippet/"):
            self.records[uri]["blobs"][0]["rawPlainData"] = text
        else:
            self.records[uri]["description"] = text

    def delete(self, uri: str) -> None:
        del self.records[uri]

    def make_confidential(self, uri: str) -> None:
        self.touch(uri)
        self.records[uri]["confidential"] = True

    def label(self, uri: str, *titles: str) -> None:
        self.touch(uri)
        self.records[uri]["labels"] = [{"title": title} for title in titles]

    def note(
        self, uri: str, body: str, *, author: Record | None = ADA, thread: Record | None = None, **facts: Any
    ) -> Record:
        """A comment; with `thread`, an answer to that comment."""
        at, number = self.touch(uri), self._id()
        note: Record = {
            "id": f"gid://gitlab/{'DiffNote' if facts.get('position') else 'Note'}/{number}",
            "body": body,
            "author": author,
            "createdAt": at,
            "updatedAt": at,
            "url": f"{self.records[uri]['webUrl']}#note_{number}",
            "system": False,
            "internal": False,
            "resolvable": False,
            "resolved": False,
            "position": thread["position"] if thread else None,
            "discussion": thread["discussion"] if thread else {"id": f"gid://gitlab/Discussion/{number}"},
        } | facts
        self.records[uri]["notes"].append(note)
        return note

    def remark(self, uri: str, path: str, line: int | None, body: str, **facts: Any) -> Record:
        """A comment on a line of the diff, which begins a thread that can be resolved."""
        position = {"filePath": path, "newLine": line, "oldLine": None}
        return self.note(uri, body, position=position, resolvable=True, **facts)

    def files(self, uri: str, *paths: str) -> None:
        self.touch(uri)
        self.records[uri]["diffStats"] = [{"path": path, "additions": 3, "deletions": 1} for path in paths]

    def diff(self, uri: str, path: str, patch: str | None, **facts: Any) -> None:
        """Another changed file; `patch` None: it is binary or too large, and its diff is empty."""
        self.touch(uri)
        record = self.records[uri]
        record["diffStats"] = [*record["diffStats"], {"path": path, "additions": 1, "deletions": 1}]
        known = {"old_path": path, "new_path": path, "new_file": False, "renamed_file": False}
        known |= {"deleted_file": False, "a_mode": "100644", "b_mode": "100644"}
        record["diffs"].append({**known, "diff": patch or "", "too_large": patch is None, **facts})

    def approve(self, uri: str, author: Record = ADA) -> None:
        self.note(uri, "approved this merge request", author=author, system=True)
        self.records[uri]["approvedBy"].append(author)

    def touch(self, uri: str) -> str:
        """Let a minute pass; returns the time, as GitLab tells it."""
        self.clock += timedelta(minutes=1)
        at = self.clock.strftime("%Y-%m-%dT%H:%M:%SZ")
        if uri in self.records:
            self.records[uri]["updatedAt"] = at
        return at

    def _conversation(self, kind: str, place: str, title: str, description: str) -> tuple[str, Record]:
        self._last_iids[kind] += 1
        iid = self._last_iids[kind]
        at = self.touch("")
        record: Record = {
            "id": self._id(),
            "iid": str(iid),
            "kind": kind,
            "title": title,
            "description": description,
            "author": ADA,
            "state": "opened",
            "createdAt": at,
            "updatedAt": at,
            "webUrl": f"{self.web_url}/-/{place}/{iid}",
            "milestone": None,
            "labels": [],
            "notes": [],
        }
        self.records[f"{kind}/{iid}"] = record
        return f"{kind}/{iid}", record

    def _id(self) -> int:
        self._last_id += 1
        return self._last_id

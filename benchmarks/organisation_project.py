"""The project of `benchmarks.organisation_day`: its knowledge.yaml, and whether its tables are right."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from knowledge_pipeline.config.file import load_settings
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.connectors.registry import list_members
from knowledge_pipeline.contract.filters import Filters
from knowledge_pipeline.knowledge_base import KnowledgeBase
from knowledge_pipeline.maintenance import purge_source
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.store.access import read_audiences
from knowledge_pipeline_tests.conftest import Project, embedding_by, tables
from knowledge_pipeline_tests.fakes.openai_server import OpenAIServer
from knowledge_pipeline_tests.fakes.organisation import Organisation
from knowledge_pipeline_tests.fakes.organisation_services import PEOPLE, MemberKind

TENANT = "acme"
SECRET = "-".join(("hook", "secret"))  # of every webhook
MEMBERS: Mapping[str, MemberKind] = {
    **{"code": "repository", "tickets": "project", "wiki": "space", "chat": "channel"}
}
"""What the members of each organisation are, by its id."""

_WORD = re.compile(r"\bqu[a-z]{6}\b")


class DayProject(Project):
    """A folder with a knowledge.yaml that commands read."""

    def __init__(self, root: Path, server: OpenAIServer, acme: Organisation) -> None:
        super().__init__(root, embedding_by(server))
        self.config = root / "knowledge.yaml"
        root.mkdir(parents=True)
        embedding = {"provider": "openai", "model": "hashed-words", "base_url": server.url}
        declared = declare(acme)
        for each in declared:
            each["connection"]["token"] = _hide(f"{each['id']}_token", each["connection"]["token"])
        services = ("github_secret", "jira_secret", "confluence_secret", "slack_secret")
        settings = {
            "version": 1,
            "store": "store",
            "embedding": {
                **embedding,
                "api_key": _hide("embedding_key", server.key),
                "dimensions": server.dimensions,
            },
            "serve": {
                "anonymous": "off",
                "webhooks": dict.fromkeys(services, _hide("webhook_secret", SECRET)),
            },
            "organisations": declared,
        }
        self.config.write_text(json.dumps(settings))

    @property
    def settings(self) -> Settings:
        """With the members of the last listing."""
        return load_settings(self.config)

    def run(self, *command: str) -> str:
        """A command in a process of its own, as a person runs it; what it said where it failed."""
        line = [sys.executable, "-m", "knowledge_pipeline.cli", *command, "--config", str(self.config)]
        done = subprocess.run(line, capture_output=True, text=True)
        return f"{' '.join(command)}: {done.stderr.strip()[-600:]}" if done.returncode else ""

    def poll(self, *options: str) -> list[str]:
        """Discover, refresh what changed, and purge what is not declared any more; what went wrong."""
        problem = self.run("refresh", *options)
        settings = self.settings
        for gone in sorted(self.lake.list_stored_sources().keys() - {each.id for each in settings.sources}):
            purge_source(self.lake, settings, gone)  # as Dagster does
        return [problem] if problem else []


def declare(acme: Organisation) -> list[dict[str, Any]]:
    """The organisations, with permissions of the services, and attachments where there may be some."""
    declared = acme.declare(access={"visibility": "from_source", "tenant": TENANT})
    for source in (source for each in declared for source in each["sources"]):
        if source["type"] in ("jira", "confluence", "slack"):
            source["attachments"] = True
    return declared


def _hide(name: str, secret: str) -> str:
    """How the file refers to a secret, which is in the environment."""
    os.environ[name.upper()] = secret
    return "${" + name.upper() + "}"


def check_readers(project: DayProject, acme: Organisation) -> Iterator[str | None]:
    """Everybody finds the words of what they may read, and no others.

    For each person and member: None, or a sentence of what differs.
    """
    sources: defaultdict[tuple[MemberKind, str], list[str]] = defaultdict(list[str])
    for organisation in project.settings.organisations:
        for member in filter(organisation.takes, list_members(organisation.connection)):
            ids = [source.id for source in organisation.build_sources(member)]
            sources[MEMBERS[organisation.id], member.name] += ids
    for login in PEOPLE:
        access = Access(TENANT, frozenset({to_email(login)}))
        with KnowledgeBase(project.settings, config=project.config, access=access) as knowledge:
            for (kind, member), ids in sources.items():
                filters = Filters(sources=tuple(ids))
                results = knowledge.search("who to ask", filters=filters, limit=100).results
                found = {word for each in results for word in _WORD.findall(each.content)}
                may = login in acme.list_readers(kind, member)
                expected = acme.list_words(kind, member) if may else set[str]()
                lacks, sees = sorted(expected - found), sorted(found - expected)
                yield f"{login} in {member}: lacks {lacks}, finds {sees}" if lacks or sees else None


def compare(project: DayProject, full: DayProject) -> Iterator[str]:
    """What differs between the tables and those of a full index; one sentence for each table."""
    ours, theirs = tables(project, archived=False), tables(full, archived=False)
    for name in sorted(ours.keys() | theirs.keys()):
        here, there = ours.get(name, []), theirs.get(name, [])
        if here != there:
            different = [(one, other) for one, other in zip(here, there, strict=False) if one != other]
            yield f"{name}: {len(here)} rows, {len(there)} in a full index; {_describe(different)}"
    for source in full.settings.sources:
        if read_audiences(project.lake, source.type, source.id) != read_audiences(
            full.lake, source.type, source.id
        ):
            yield f"readers of {source.id} differ from those of a full index"


def _describe(different: Sequence[tuple[dict[str, Any], dict[str, Any]]]) -> str:
    if not different:
        return "one has more"
    one, other = different[0]
    columns = [name for name in one if one[name] != other.get(name)]
    shown = {name: (str(one[name])[:200], str(other.get(name))[:200]) for name in columns[:3]}
    return f"{len(different)} differ, the first ({one.get('uri') or one.get('id')}) in {shown}"


def to_email(login: str) -> str:
    """Somebody's address in every service."""
    return f"{login}@acme.example"

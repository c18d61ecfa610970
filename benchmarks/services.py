"""What 10,000 tickets and 5,000 pull requests with reviews ask of their services, and of this machine.

python -m benchmarks.services [--tickets N] [--pulls N] [--json]

The services are the fakes of the tests, in a process of their own, so that memory is the pipeline's
alone; vectors are made by an endpoint beside them, so that the time is the pipeline's, too. Each step
is a process: its memory is what the operating system saw at most (`VmHWM`), start-up included.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import yaml

from benchmarks.figures import describe_machine, measure_peak_memory, print_rows
from knowledge_pipeline_tests.fakes.github.server import GithubServer
from knowledge_pipeline_tests.fakes.jira.server import JiraServer
from knowledge_pipeline_tests.fakes.openai_server import OpenAIServer

_SENTENCE = (
    "After number {0} of the keys is rotated, sessions that it signed stay valid for {0} more minutes. "
)

_BETWEEN_TICKETS_S = (
    600  # by the fake's clock; what was updated shortly before the last listing is listed again
)


def main() -> None:
    """Measure at a tenth of the size, and at the whole."""
    asked = _arguments()
    if asked.refresh:
        print(json.dumps(_refresh(Path(asked.refresh))))
        return
    rows = [
        row
        for share in (10, 1)
        for row in measure(tickets=asked.tickets // share, pulls=asked.pulls // share)
    ]
    if asked.json:
        print(json.dumps({"machine": describe_machine(), "rows": rows}, indent=2))
        return
    print_rows(describe_machine(), rows)


def measure(*, tickets: int, pulls: int) -> Iterator[dict[str, Any]]:
    """A first refresh, one without a change, one after an edit of each service."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        jira, github = stack.enter_context(JiraServer()), stack.enter_context(GithubServer())
        embedding = stack.enter_context(OpenAIServer())
        ticket, pull = _fill_services(jira, github, tickets=tickets, pulls=pulls)
        (folder / "knowledge.yaml").write_text(
            yaml.safe_dump(_build_config(jira, github, embedding)), "utf-8"
        )
        os.environ |= {
            "JIRA_TOKEN": jira.token,
            "GITHUB_TOKEN": github.token,
            "EMBEDDING_KEY": embedding.key,
        }
        names = f"{tickets:,} tickets, {pulls:,} pull requests"
        yield _step(f"first: {names}", folder, jira, github)
        yield _step("nothing changed", folder, jira, github)
        jira.edit(ticket, "Sessions end with their key now.")
        github.edit(pull, "Sessions end with their key now.")
        yield _step("one of each edited", folder, jira, github)


def _fill_services(jira: JiraServer, github: GithubServer, *, tickets: int, pulls: int) -> tuple[str, str]:
    """Tickets with a comment, and pull requests with a review and a thread; one of each."""
    ticket = pull = ""
    for number in range(tickets):
        ticket = jira.create(f"Sessions outlive key {number}", _SENTENCE.format(number) * 4)
        jira.site.comment(ticket, f"Seen again with key {number}.")
        jira.site.tick(_BETWEEN_TICKETS_S)
    for number in range(pulls):
        pull = github.create(f"Retire key {number}", _SENTENCE.format(number) * 4)
        github.repository.review(pull, "APPROVED", f"Key {number} is gone, good.")
        github.repository.thread(pull, "src/keys.py", 12, f"Why {number} minutes?", "It is the agreed time.")
    return ticket, pull


def _build_config(jira: JiraServer, github: GithubServer, embedding: OpenAIServer) -> dict[str, Any]:
    """What `knowledge.yaml` says; the secrets are in the environment."""
    of_jira = {"type": "jira", "url": jira.url, "email": jira.email, "token": "${JIRA_TOKEN}"}
    of_github = {"type": "github", "url": github.url, "token": "${GITHUB_TOKEN}"}
    repository = {"repository": github.repository.full_name}
    return {
        "version": 1,
        "store": "store",
        "embedding": {
            "provider": "openai",
            "model": "hashed-words",
            "base_url": embedding.url,
            "api_key": "${EMBEDDING_KEY}",
            "dimensions": embedding.dimensions,
        },
        "sources": [
            {"id": "tickets", "type": "jira", "connection": of_jira},
            {"id": "pulls", "type": "github_pr", "connection": of_github | repository},
        ],
    }


def _step(name: str, folder: Path, jira: JiraServer, github: GithubServer) -> dict[str, Any]:
    before = len(jira.requests), len(github.requests)
    command = [sys.executable, "-m", "benchmarks.services", "--refresh", str(folder)]
    ran = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    told = json.loads(ran.stdout.splitlines()[-1])
    calls = {
        "calls to Jira": len(jira.requests) - before[0],
        "to GitHub": len(github.requests) - before[1],
    }
    return {"refresh": name, **calls, **told}


def _refresh(folder: Path) -> dict[str, Any]:
    """Refresh all sources in this process."""
    from knowledge_pipeline.config import file
    from knowledge_pipeline.stages import pipeline
    from knowledge_pipeline.store.lake import Lake

    settings = file.load_settings(folder / "knowledge.yaml")
    lake = Lake(settings.store)
    started = time.perf_counter()
    outcome = pipeline.refresh(lake, settings, settings.select_sources(()))
    seconds = round(time.perf_counter() - started, 1)
    for failure in outcome.failures.values():
        raise failure
    (space,) = lake.list_spaces().items()
    return {
        "chunks": lake.index(*space).count_rows(),
        "seconds": seconds,
        "peak MB": round(measure_peak_memory()),
    }


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--tickets", type=int, default=10_000)
    parser.add_argument("--pulls", type=int, default=5_000)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--refresh", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()

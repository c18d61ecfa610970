"""A day of an organisation: how soon changes are searchable, and whether a full index of the end is the same.

    python -m benchmarks.organisation_day [--repositories 200] [--projects 40] [--spaces 60] [--channels 100]

GitHub, Jira, Confluence and Slack are fakes that hold an organisation with attachments and permissions. It is
indexed; a real `knowledge serve` takes in signed webhooks of most changes of the day that
`knowledge_pipeline_tests.fakes.organisation_day` lists, is killed once with events accepted, and polls notice
the others. In the end the tables equal those of a new index, and everybody finds what they may read.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from unittest.mock import patch

import httpx2
from rich.console import Console
from rich.table import Table

from benchmarks.figures import describe_machine
from benchmarks.organisation_project import (
    MEMBERS,
    SECRET,
    TENANT,
    DayProject,
    check_readers,
    compare,
    declare,
    to_email,
)
from benchmarks.serve_load import serving
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.connectors.registry import list_members
from knowledge_pipeline.serve.tokens import TokenStore
from knowledge_pipeline_tests.fakes.openai_server import OpenAIServer
from knowledge_pipeline_tests.fakes.organisation import ITEMS, WHOLE, Organisation
from knowledge_pipeline_tests.fakes.organisation_day import DAY, Expectation, OrganisationDay
from knowledge_pipeline_tests.fakes.organisation_services import PEOPLE, ItemKind, MemberKind

_ITEMS: Mapping[ItemKind, int] = {**ITEMS, "pull": 2, "issue": 2}  # one may be deleted
_PATIENCE_S = 120.0
_POLLS = 3  # in a day; the last one lists in full, as every night
_TRIES = 4  # of a search that is not answered in time
_LOOK_EVERY_S = 0.2


@dataclass
class DayReport:
    """What the day came to."""

    items: int = 0
    sources: int = 0
    rows: int = 0
    first_index_s: float = 0.0
    full_index_s: float = 0.0
    poll_s: list[float] = field(default_factory=list[float])
    announced: int = 0
    lost: int = 0
    healed: list[int] = field(default_factory=list[int])  # by each poll
    searchable_s: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list[float]))
    after_kill_s: list[float] = field(default_factory=list[float])  # its hour, the restart included
    readers_checked: int = 0  # pairs of a person and a member
    problems: list[str] = field(default_factory=list[str])


class Day:
    """One project under way through a day."""

    def __init__(self, project: DayProject, acme: Organisation, report: DayReport) -> None:
        self.project, self.acme, self.report = project, acme, report
        self.day = OrganisationDay(acme, SECRET)
        self._lost: list[Expectation] = []
        self._started, self._noted = time.perf_counter(), 0
        self._server = ExitStack()
        tokens = TokenStore(project.lake)
        self._tokens = {
            login: tokens.create(
                login, tenant=TENANT, principals=[to_email(login)], requests_per_minute=1_000_000
            )[1]
            for login in PEOPLE
        }

    def __enter__(self) -> Day:
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.close()

    def pass_through(self, hours: Sequence[str], hours_at_once: int) -> None:
        """Make the changes hour by hour; in the middle, kill the server; after each third, poll."""
        self.day.known = set(self._iter_members())
        for start in range(0, len(hours), hours_at_once):
            done = min(start + hours_at_once, len(hours))
            rows = [row for hour in hours[start:done] for row in hour.split("; ")]
            self._pass_hours(rows, is_killed=start <= len(hours) // 2 < done)
            if done * _POLLS >= len(hours) * (len(self.report.poll_s) + 1):
                self._poll(*(["--relist"] if done == len(hours) else []))

    def _pass_hours(self, rows: Sequence[str], *, is_killed: bool) -> None:
        self.acme.github.limit(after=5_000, reset_s=3_600)  # an hour's quota
        waiting: list[tuple[Expectation, float]] = []
        for row in rows:
            change = self.day.make(row)
            sent_at = time.perf_counter()
            for delivery in change.deliveries:
                response = delivery.post(self._url)
                if response.status_code != 202 or not response.json()["refreshes"]:
                    self.report.problems.append(f"{row}: not taken in, {response.text}")
            if change.deliveries and change.expected:
                self.report.announced += 1
                waiting.append((change.expected, sent_at))
            elif change.expected:
                self.report.lost += 1
                self._lost.append(change.expected)
        if is_killed:
            os.kill(self._pid, signal.SIGKILL)
            self._start()
        self._wait(waiting, is_killed)
        self._note(f"{len(rows)} changes")

    def _wait(self, waiting: list[tuple[Expectation, float]], is_killed: bool) -> None:
        """Search until each change is searchable; how long each took."""
        deadline = time.perf_counter() + _PATIENCE_S
        while waiting and time.perf_counter() < deadline:
            for each in list(waiting):
                expected, sent_at = each
                if not expected.holds():
                    waiting.remove(each)
                elif self._is_met(expected):
                    waiting.remove(each)
                    took_s = time.perf_counter() - sent_at
                    times = self.report.after_kill_s
                    (times if is_killed else self.report.searchable_s[expected.measure]).append(took_s)
            time.sleep(_LOOK_EVERY_S)
        late = [expected for expected, _ in waiting]
        self.report.problems += [f"{each}: not noticed after {_PATIENCE_S:.0f} s" for each in late]

    def _poll(self, *options: str) -> None:
        started = time.perf_counter()
        self.report.problems += self.project.poll(*options)
        self.report.poll_s.append(time.perf_counter() - started)
        self.day.known = set(self._iter_members())
        due = [each for each in self._lost if each.holds()]
        self._lost = [each for each in due if not self._is_met(each)]
        self.report.healed.append(len(due) - len(self._lost))
        if options:
            self.report.problems += [f"{each}: not noticed by the full listing" for each in self._lost]
        self._note("a poll")

    def _note(self, done: str) -> None:
        """How far the day is, for who waits for it."""
        report = self.report
        noted = (
            f"{time.perf_counter() - self._started:.0f} s: {done}, {sum(report.healed)} of {report.lost} lost"
        )
        print(noted, *report.problems[self._noted :], sep="\n  ", file=sys.stderr, flush=True)
        self._noted = len(report.problems)

    def _is_met(self, expected: Expectation) -> bool:
        reader = expected.pick_reader()
        is_found = not expected.find or expected.find in self._search(expected.find, reader)
        return is_found and not (expected.lose and expected.lose in self._search(expected.lose, reader))

    def _search(self, word: str, login: str) -> str:
        response = self._ask(word, login)
        for _ in range(_TRIES - 1):
            if response.status_code == 504:  # it was not answered in time: the machine is busy
                response = self._ask(word, login)
        return " ".join(each["content"] for each in response.raise_for_status().json()["results"])

    def _ask(self, word: str, login: str) -> httpx2.Response:
        return self._client.post(
            "/api/v1/knowledge/search",
            json={"query": word, "limit": 5, "mode": "words"},  # fake vectors say little of a word
            headers={"Authorization": f"Bearer {self._tokens[login]}"},
        )

    def _start(self) -> None:
        self._server.close()
        self._url, self._pid = self._server.enter_context(serving(self.project.root))
        self._client = self._server.enter_context(httpx2.Client(base_url=self._url, timeout=240))

    def _iter_members(self) -> Iterator[tuple[MemberKind, str]]:
        """As the services list them now, without those that are archived."""
        for organisation in Settings.model_validate({"organisations": declare(self.acme)}).organisations:
            for member in filter(organisation.takes, list_members(organisation.connection)):
                yield MEMBERS[organisation.id], member.name


def run_day(
    folder: Path,
    sizes: Mapping[MemberKind, int],
    *,
    seed: int = 1,
    hours: Sequence[str] = DAY,
    hours_at_once: int = 1,
) -> DayReport:
    """Fill an organisation, index it, change it for a day, and compare."""
    report = DayReport()
    with (
        patch.dict(os.environ),  # which has the secrets
        OpenAIServer() as server,
        Organisation(folder / "services", seed=seed, sizes=sizes, items=_ITEMS) as acme,
    ):
        project = DayProject(folder / "project", server, acme)
        report.items = len(acme.words) + sum(map(len, acme.files.values()))
        started = time.perf_counter()
        report.problems += project.poll()
        report.first_index_s = time.perf_counter() - started
        report.sources = len(project.settings.sources)
        with Day(project, acme, report) as day:
            day.pass_through(hours, hours_at_once)
            acme.github.limit(after=50_000, reset_s=3_600)
            full = DayProject(folder / "full", server, acme)
            started = time.perf_counter()
            report.problems += full.poll()
            report.full_index_s = time.perf_counter() - started
            report.rows = sum(full.lake.index(*each).count_rows() for each in full.lake.list_spaces().items())
            report.problems += compare(project, full)
            checked = list(check_readers(project, acme))
            report.readers_checked = len(checked)
            report.problems += filter(None, checked)
    return report


def print_report(report: DayReport, console: Console) -> None:
    """The times as a table, then the counts, then what differs."""
    table = Table(
        "from event to searchable", "changes", "median s", "p95 s", "max s", title=describe_machine()
    )
    for name, times in {**report.searchable_s, "any, server killed": report.after_kill_s}.items():
        if times:
            p95 = sorted(times)[round(0.95 * (len(times) - 1))]
            cells = [f"{each:.1f}" for each in (statistics.median(times), p95, max(times))]
            table.add_row(name, str(len(times)), *cells)
    console.print(table)
    polls = ", ".join(f"{each:.0f}" for each in report.poll_s)
    console.print(
        f"{report.items} items, {report.sources} sources, {report.rows} rows: first index "
        f"{report.first_index_s:.0f} s, full index of the end {report.full_index_s:.0f} s, polls {polls} s. "
        f"{report.announced} changes announced; of {report.lost} others polls noticed {report.healed}. "
        f"{report.readers_checked} pairs of a person and a member checked."
    )
    for problem in report.problems:
        console.print(f"- {problem}", markup=False)
    console.print("Equal to a full index." if not report.problems else f"{len(report.problems)} problems.")


def main() -> None:
    """Pass through a day and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    names: Mapping[str, MemberKind] = {
        f"{kind[:-1]}ies" if kind == "repository" else f"{kind}s": kind for kind in WHOLE
    }
    for name, kind in names.items():
        parser.add_argument(f"--{name}", type=int, default=WHOLE[kind])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--hours-at-once", type=int, default=1, help="fewer and larger bursts of events")
    parser.add_argument("--folder", type=Path, help="where to keep the project; else it is deleted")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    sizes: dict[MemberKind, int] = {kind: getattr(options, name) for name, kind in names.items()}
    with tempfile.TemporaryDirectory() as folder:
        report = run_day(
            options.folder or Path(folder), sizes, seed=options.seed, hours_at_once=options.hours_at_once
        )
    if options.json:
        print(json.dumps(asdict(report)))
    else:
        print_report(report, Console(width=120))
    sys.exit(bool(report.problems))


if __name__ == "__main__":
    main()

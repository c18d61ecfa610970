"""What the logs have of some attempts, beside what was answered and refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from urllib.parse import parse_qs, urlsplit

from rich.console import Console
from rich.table import Table

from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline_tests.serve.isolation import Reply
from knowledge_pipeline_tests.serve.isolation_attempts import PREFIX, Attempt

_REFUSALS = {401: "unauthenticated", 403: "forbidden", 404: "not_found", 429: "rate_limited"}
_OUTCOMES = ("answered", *_REFUSALS.values())
_INTERFACES = ("http", "mcp", "page", "python")
_NO_CONTENT = ("collections", "status", "stats", "sources", "tools", "feedback", "sync")
"""Routes that tell what there is, and how much; they answer no question."""
_PAGES_WITHOUT_QUESTION = ("/", "/sources", "/progress")

Rows = Counter[tuple[str, str]]  # by interface and outcome


class Audit:
    """Counts replies, and reads the logs of the stores that gave them when their servers have ended."""

    def __init__(self, lakes: Sequence[Lake]) -> None:
        self._lakes = lakes
        self._before = Rows()
        self._expected, self._attempts = Rows(), Counter[str]()

    def start(self) -> None:
        """Take what the logs have now as what was there before."""
        self._before = self._read_rows()

    def count(self, attempt: Attempt, reply: Reply) -> None:
        """Expect the row of a reply, if it is to have one."""
        self._attempts[attempt.door] += 1
        outcome = _find_outcome(attempt, reply)
        if outcome is not None:
            self._expected[attempt.door, outcome] += 1

    def print_table(self) -> None:
        """What each interface answered and refused, and how many rows too few or too many there are."""
        written = self._read_rows() - self._before
        table = Table(title="Attempts and their rows in the audit")
        headings = ("interface", "attempts", "answered", "401", "403", "404", "429", "no row due")
        for heading in (*headings, "rows", "missing", "too many"):
            table.add_column(heading, justify="left" if heading == "interface" else "right")
        for door in _INTERFACES:
            expected = [self._expected[door, outcome] for outcome in _OUTCOMES]
            rows = [written[door, outcome] for outcome in _OUTCOMES]
            pairs = list(zip(expected, rows, strict=True))
            missing, more = (
                sum(max(0, a - b) for a, b in each) for each in (pairs, [p[::-1] for p in pairs])
            )
            cells = (self._attempts[door], *expected, self._attempts[door] - sum(expected), sum(rows))
            table.add_row(door, *map(str, (*cells, missing, more)))
        Console(width=120).print(table)

    def _read_rows(self) -> Rows:
        rows = Rows()
        for lake in self._lakes:
            rows.update(
                (row["interface"], "answered")
                for row in lake.log_table("queries").read_rows(["interface"]).to_pylist()
            )
            columns = ["interface", "outcome", "requests"]
            for row in lake.log_table("refusals").read_rows(columns).to_pylist():
                rows[row["interface"], row["outcome"]] += row["requests"]
        return rows


def _find_outcome(attempt: Attempt, reply: Reply) -> str | None:
    """How the audit has to name a reply; None: it has no row, as it answers and refuses no question."""
    if reply.status in _REFUSALS and attempt.door != "python":
        return _REFUSALS[reply.status]
    if reply.status != 200:
        return None  # a question that makes no sense; in Python, also what is not found
    if attempt.door == "mcp":
        result = reply.told.get("result", {})
        if result.get("isError"):
            return _find_tool_outcome(str(result))
        return None if attempt.name == "list_sources" else "answered"
    if attempt.door == "python":
        return None if attempt.name == "status" else "answered"
    address = urlsplit(attempt.name)
    if attempt.door == "page":
        is_question = address.path not in _PAGES_WITHOUT_QUESTION or parse_qs(address.query).get("q")
        return "answered" if is_question else None
    is_api = address.path.startswith((PREFIX, PREFIX.removeprefix("/api")))
    is_question = is_api and address.path.rpartition("/")[2] not in _NO_CONTENT
    return "answered" if is_question else None


def _find_tool_outcome(error: str) -> str | None:
    """A tool tells what was wrong in a sentence."""
    if "there is no tool" in error:  # of a type of sources that the store has none of
        return None
    if "requires the scope" in error:
        return "forbidden"
    return "rate_limited" if "requests within a minute" in error else "not_found"

"""As much of JQL as a fake Jira needs: comparisons, `in`, `is`, `and`, `or`, `not`, parentheses, ORDER BY."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo

_TOKEN = re.compile(
    r"""\s*(?:(?P<string>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')|(?P<sign>>=|<=|!=|!~|[=<>~(),])|(?P<word>[\w.-]+))"""
)
_ESCAPE = re.compile(r"\\(.)")
_UNESCAPED = {"n": "\n", "r": "\r", "t": "\t"}

Ticket = dict
Test = Callable[[Ticket], bool]


class JqlError(Exception):
    """What Jira answers with 400."""


@dataclass(frozen=True)
class Query:
    """What a query asks: the test, and the fields to sort by with whether each descends."""

    passes: Test | None  # None: it restricts nothing
    order: list[tuple[str, bool]]


def parsed(jql: str, *, zone: tzinfo, known: Callable[[str, str], bool]) -> Query:
    """A query. `zone`: of the account; `known(field, value)`: whether Jira has such a value.

    Raises:
        JqlError: as Jira words it.
    """
    return _Parser(jql, zone, known).query()


class _Parser:
    def __init__(self, jql: str, zone: tzinfo, known: Callable[[str, str], bool]) -> None:
        self._tokens = self._split(jql)
        self._zone = zone
        self._known = known
        self._at = 0

    def _split(self, jql: str) -> list[tuple[str, str]]:
        tokens, at = [], 0
        jql = jql.rstrip()
        while at < len(jql):
            match = _TOKEN.match(jql, at)
            if match is None:
                raise JqlError(f"Error in the JQL Query: The character at position {at} is not understood.")
            text = match[match.lastgroup]
            if match.lastgroup == "string":
                text = _ESCAPE.sub(lambda found: _UNESCAPED.get(found[1], found[1]), text[1:-1])
            tokens.append((match.lastgroup, text))
            at = match.end()
        return tokens

    def query(self) -> Query:
        ordered = self._next_is("order")
        test = None if ordered or not self._tokens else self._any()
        order = []
        if self._take("order"):
            self._need("by")
            while True:
                field = self._pop()[1].lower()
                order.append((field, bool(self._take("desc"))))
                self._take("asc")
                if not self._take(","):
                    break
        if self._at < len(self._tokens):
            raise JqlError(
                f"Error in the JQL Query: Expecting either 'OR' or 'AND' but got '{self._pop()[1]}'."
            )
        return Query(test, order)

    def _any(self) -> Test:
        tests = [self._all()]
        while self._take("or"):
            tests.append(self._all())
        return lambda ticket: any(test(ticket) for test in tests)

    def _all(self) -> Test:
        tests = [self._one()]
        while self._take("and"):
            tests.append(self._one())
        return lambda ticket: all(test(ticket) for test in tests)

    def _one(self) -> Test:
        if self._take("not"):
            test = self._one()
            return lambda ticket: not test(ticket)
        if self._take("("):
            test = self._any()
            self._need(")")
            return test
        field = self._pop()[1].lower()
        if self._take("is"):
            wanted = not self._take("not")
            self._need("empty")
            return lambda ticket: (not values_of(ticket, field)) == wanted
        if self._take("not"):
            self._need("in")
            values = self._values(field)
            return lambda ticket: not set(values_of(ticket, field)) & values
        if self._take("in"):
            values = self._values(field)
            return lambda ticket: bool(set(values_of(ticket, field)) & values)
        return self._compared(field, self._pop()[1], self._pop()[1])

    def _values(self, field: str) -> set[str]:
        self._need("(")
        values = {self._checked(field, self._pop()[1])}
        while self._take(","):
            values.add(self._checked(field, self._pop()[1]))
        self._need(")")
        return values

    def _checked(self, field: str, value: str) -> str:
        if not self._known(field, value):
            raise JqlError(f"The value '{value}' does not exist for the field '{field}'.")
        return value.lower()

    def _compared(self, field: str, sign: str, value: str) -> Test:
        if field in {"created", "updated"}:
            moment = self._moment(value)
            return lambda ticket: _date_passes(ticket[field], sign, moment)
        if sign == "~":
            return lambda ticket: value.lower() in " ".join(values_of(ticket, field))
        value = self._checked(field, value)
        if sign in {"=", "!="}:
            return lambda ticket: (value in values_of(ticket, field)) == (sign == "=")
        raise JqlError(f"The operator '{sign}' is not supported by the '{field}' field.")

    def _moment(self, value: str) -> datetime:
        for form in ("%Y-%m-%d %H:%M", "%Y/%m/%d %H:%M", "%Y-%m-%d", "%Y/%m/%d"):
            try:
                local = datetime.strptime(value, form)
                # of an hour that the clocks show twice it is the later one, as Java has it
                return local.replace(tzinfo=self._zone, fold=1).astimezone(UTC)
            except ValueError:
                continue
        raise JqlError(f"Date value '{value}' is invalid. Valid formats include: 'yyyy/MM/dd HH:mm', ...")

    def _next_is(self, word: str) -> bool:
        if self._at >= len(self._tokens):
            return False
        kind, text = self._tokens[self._at]
        return kind != "string" and text.lower() == word

    def _take(self, word: str) -> bool:
        found = self._next_is(word)
        self._at += found
        return found

    def _need(self, word: str) -> None:
        if not self._take(word):
            raise JqlError(f"Error in the JQL Query: Expecting '{word}'.")

    def _pop(self) -> tuple[str, str]:
        if self._at >= len(self._tokens):
            raise JqlError("Error in the JQL Query: it ends too early.")
        self._at += 1
        return self._tokens[self._at - 1]


def _date_passes(moment: datetime, sign: str, other: datetime) -> bool:
    tests = {">=": moment >= other, "<=": moment <= other, ">": moment > other, "<": moment < other}
    if sign not in tests:
        raise JqlError(f"The operator '{sign}' is not supported here.")
    return tests[sign]


def values_of(ticket: Ticket, field: str) -> list[str]:
    """The values of a field of the fake's own ticket, in lower case."""
    value = ticket.get({"type": "issuetype", "issuekey": "key"}.get(field, field))
    values = value if isinstance(value, list) else [value]
    return [str(each).lower() for each in values if each is not None]

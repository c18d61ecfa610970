"""Asking a fake Jira in one line: what a test of the connector does."""

from __future__ import annotations

import pytest

from knowledge_pipeline.connectors.jira.query import TicketCriteria
from knowledge_pipeline.connectors.jira.tickets import JiraTickets
from knowledge_pipeline.errors import KnowledgeError
from knowledge_pipeline.records import Document, Item
from knowledge_pipeline_tests.fakes.jira.server import JiraServer


def tickets(server: JiraServer, **filters) -> JiraTickets:
    return JiraTickets(server.connection(), TicketCriteria(**filters))


def listing(server: JiraServer, **filters) -> list[Item]:
    with tickets(server, **filters) as source:
        return list(source.discover())


def uris(items) -> list[str]:
    return [item.uri for item in items]


def read(server: JiraServer, uri: str, **filters) -> Document:
    with tickets(server, **filters) as source:
        return source.fetch(Item(uri, "1", uri.removeprefix("issue/")))


def many(server: JiraServer, count: int) -> list[str]:
    return [server.create(f"Ticket {number}", f"text {number}") for number in range(count)]


def refusal(server: JiraServer, **filters) -> str:
    with pytest.raises(KnowledgeError) as raised:
        listing(server, **filters)
    assert server.token not in str(raised.value)
    return str(raised.value)

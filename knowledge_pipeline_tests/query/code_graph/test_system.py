"""The system across repositories: two services and their settings, from folders to answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from knowledge_pipeline import KnowledgeBase
from knowledge_pipeline.contract.responses import GraphResponse
from knowledge_pipeline.errors import NotFound
from knowledge_pipeline.query.access import Access
from knowledge_pipeline_tests.conftest import Project
from knowledge_pipeline_tests.connectors.repositories import Repository
from knowledge_pipeline_tests.fakes.jira.server import JiraServer

ORDERS = {
    "api.py": """\
from fastapi import APIRouter
import os

router = APIRouter(prefix="/orders")
DATABASE = os.environ["DATABASE_URL"]

@router.post("")
def create_order(order):
    return save(order)

@router.get("/{order_id}")
def read_order(order_id):
    return find(order_id)

def save(order):
    producer.send("order-created", order)
    db.execute("INSERT INTO orders VALUES (1)")

def find(order_id):
    return db.execute("SELECT * FROM orders")
""",
    "schema.sql": "CREATE TABLE orders (id int);\n",
    "compose.yaml": "services:\n  api:\n    environment:\n      DATABASE_URL: postgres://db\n",
    "CODEOWNERS": "* @acme/orders\n/schema.sql @acme/data\n",
    "tests/test_api.py": 'def test_create(client):\n    assert client.post("/orders", json={})\n',
}
SHOP = {
    "cart.ts": """\
export async function checkout(cart) {
  return fetch(`${API}/api/v1/orders`, { method: "POST", body: cart });
}
export function submit(cart) { return checkout(cart); }
""",
    "mail.py": 'consumer = KafkaConsumer("order-created")\n',
    ".github/CODEOWNERS": "*.ts @acme/web @jane\n",
}


@pytest.fixture
def system(project: Project, tmp_path: Path) -> Project:
    """Two repositories, of which one belongs to a tenant."""
    for name, files in (("orders", ORDERS), ("shop", SHOP)):
        for path, text in files.items():
            (tmp_path / name / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name / path).write_text(text)
    project.declare("orders", "code", tmp_path / "orders", access={"visibility": "public"})
    private = {"visibility": "private", "tenant": "acme", "principals": ["jane"]}
    project.declare("shop", "code", tmp_path / "shop", access=private)
    assert not project.refresh().failures
    return project


def ends(response: GraphResponse, role: str) -> dict[str, tuple[int, float, tuple[int, ...]]]:
    """Name -> distance, confidence and lines of the edge by which it was found."""
    edges = {end: edge for edge in response.edges for end in (edge.source, edge.target)}
    return {
        f"{node.source}:{node.path}:{node.name}" if node.path else f"{node.kind} {node.name}": (
            node.distance, edges[node.id].confidence, edges[node.id].lines,
        )
        for node in response.matches
        if node.role == role
    }  # fmt: skip


def test_who_declares_and_who_calls_a_route(system: Project):
    with KnowledgeBase.open(system.settings) as base:
        answer = base.graph.find_usages("POST /orders")
        assert [(node.kind, node.name) for node in answer.targets] == [("route", "POST /orders")]
        assert ends(answer, "uses") == {"orders:api.py:create_order": (1, 1.0, (7,))}
        assert ends(answer, "used_by") == {
            "orders:tests/test_api.py:test_create": (1, 1.0, (2,)),
            "shop:cart.ts:checkout": (1, 0.6, (2,)),
        }
        assert {edge.kind for edge in answer.edges} == {"uses", "declared_by"}
        assert {edge.resolution for edge in answer.edges} == {"as written", "by the end of an address"}
        assert ends(base.graph.find_usages("route /orders/42"), "uses").keys() == {"orders:api.py:read_order"}
        with pytest.raises(NotFound, match=r"the route 'POST /order': did you mean .*POST /orders"):
            base.graph.find_usages("POST /order")


def test_topics_tables_and_variables_meet_by_name(system: Project):
    with KnowledgeBase.open(system.settings) as base:
        topic = base.graph.find_usages("topic order-created")
        assert ends(topic, "uses").keys() == {"orders:api.py:save"}
        assert ends(topic, "used_by").keys() == {"shop:mail.py:mail.py"}
        table = base.graph.find_usages("table orders")
        assert ends(table, "uses").keys() == {"orders:schema.sql:schema.sql"}
        assert ends(table, "used_by").keys() == {"orders:api.py:save", "orders:api.py:find"}
        variable = base.graph.find_usages("variable DATABASE_URL")
        assert ends(variable, "uses").keys() == {"orders:compose.yaml:compose.yaml"}
        assert ends(variable, "used_by").keys() == {"orders:api.py:api.py"}
        with pytest.raises(NotFound, match="declares or uses the topic 'nothing'"):
            base.graph.find_usages("topic nothing")


def test_impact_goes_through_a_route_and_says_what_hangs_there(system: Project):
    with KnowledgeBase.open(system.settings) as base:
        answer = base.graph.analyze_dependencies("save")
        assert {name: distance for name, (distance, *_) in ends(answer, "used_by").items()} == {
            "orders:api.py:create_order": 1,
            "topic order-created": 1,
            "route POST /orders": 2,
            "shop:mail.py:mail.py": 2,
            "shop:cart.ts:checkout": 3,
            "orders:tests/test_api.py:test_create": 3,
        }
        assert "tests: tests/test_api.py" in answer.notes
        owners = next(note for note in answer.notes if note.startswith("owners: "))
        assert "@acme/orders (api.py, tests/test_api.py)" in owners
        assert "@jane (cart.ts)" in owners
        of_file = base.graph.analyze_dependencies("schema.sql")
        assert "orders:api.py:api.py" in ends(of_file, "used_by")
        assert any("@acme/data (schema.sql)" in note for note in of_file.notes)
        assert "orders:api.py:create_order" in ends(base.graph.get_dependencies("submit", depth=3), "uses")


def test_a_caller_sees_no_other_side_that_they_may_not_see(system: Project):
    anybody, jane = Access.public(), Access("acme", frozenset({"jane"}))
    with KnowledgeBase.open(system.settings) as base:
        assert "shop:cart.ts:checkout" in ends(base.graph.find_usages("POST /orders", access=jane), "used_by")
        seen = base.graph.find_usages("POST /orders", access=anybody)
        assert ends(seen, "used_by").keys() == {"orders:tests/test_api.py:test_create"}
        notes = base.graph.analyze_dependencies("save", access=anybody).notes
        assert not any("@jane" in note for note in notes)
        with pytest.raises(NotFound):
            base.graph.find_usages("POST /api/v1/orders/x", access=anybody)


def test_a_changed_address_changes_what_meets(system: Project, tmp_path: Path):
    cart = tmp_path / "shop" / "cart.ts"
    cart.write_text(cart.read_text().replace("/orders`", "/baskets`"))
    system.refresh()
    with KnowledgeBase.open(system.settings) as base:
        answer = base.graph.find_usages("POST /orders")
        assert ends(answer, "used_by").keys() == {"orders:tests/test_api.py:test_create"}


@pytest.fixture
def changed_system(system: Project, tmp_path: Path) -> Iterator[Project]:
    """The first repository has commits for tickets, which name files themselves; other people see less."""
    repository = Repository(tmp_path / "orders")
    repository.commit("PROJ-1 Take orders")
    schema = "https://code.acme.com/orders/blob/main/schema.sql"
    with JiraServer() as jira, JiraServer() as other:
        jira.create("Take orders", "By a route.")
        jira.create("Index orders", f"See {schema} for the table.")
        jira.create("Ship orders", "Nothing has been changed for it.")
        other.site.create("Secret plan", f"About {schema}, too.", project="SEC")
        other.site.create("Secret change", "", project="SEC")
        repository.write({"schema.sql": "CREATE TABLE orders (id int, at int);\n"}).commit("Fixes SEC-2")
        private = {"visibility": "private", "tenant": "acme", "principals": ["jane"]}
        public = {"visibility": "public"}
        system.sources["tickets"] = {"id": "tickets", "type": "jira", "connection": jira.connection()}
        system.sources["plans"] = {"id": "plans", "type": "jira", "connection": other.connection()}
        system.sources["tickets"]["access"], system.sources["plans"]["access"] = public, private
        system.declare("history", "git_history", repository.root, access=public)
        assert not system.refresh().failures
        yield system


def tickets(system: Project, target: str, access: Access) -> set[str]:
    """The titles that the sentence about tickets has."""
    with KnowledgeBase.open(system.settings) as base:
        notes = base.graph.analyze_dependencies(target, access=access).notes
    title = "tickets of changes: "
    told = [ticket for note in notes if note.startswith(title) for ticket in note[len(title) :].split(", ")]
    return {ticket.partition(" ")[2] for ticket in told}


def test_impact_names_the_tickets_of_changes(changed_system: Project):
    jane = Access("acme", frozenset({"jane"}))
    assert tickets(changed_system, "find", jane) == {"PROJ-1 Take orders"}
    of_schema = {"PROJ-1 Take orders", "PROJ-2 Index orders", "SEC-1 Secret plan", "SEC-2 Secret change"}
    assert tickets(changed_system, "schema.sql", jane) == of_schema


def test_impact_names_no_ticket_that_the_caller_may_not_see(changed_system: Project):
    anybody = Access.public()
    assert tickets(changed_system, "schema.sql", anybody) == {"PROJ-1 Take orders", "PROJ-2 Index orders"}
    hidden = changed_system.sources["history"] | {"access": changed_system.sources["plans"]["access"]}
    changed_system.sources["history"] = hidden
    changed_system.refresh()
    told = tickets(changed_system, "schema.sql", anybody)
    assert told == {"PROJ-2 Index orders"}, "nor what only a commit names that they may not see"

"""A result leads to what made it: document as read, refresh, Dagster run, release."""

from __future__ import annotations

from importlib.metadata import version

import pytest

from knowledge_pipeline import KnowledgeBase
from knowledge_pipeline.client import KnowledgeClient
from knowledge_pipeline.errors import NotFound
from knowledge_pipeline.query.access import Access
from knowledge_pipeline_tests.conftest import Project
from knowledge_pipeline_tests.serve.running import Running

PAY = "def pay(order):\n    return order.total\n"
SHIP = "def ship(order):\n    return order.address\n"


@pytest.fixture(scope="module")
def shop_once(template: Project) -> Project:
    """Two files, of two releases."""
    (template.root / "shop").mkdir()
    (template.root / "shop" / "pay.py").write_text(PAY)
    template.declare("code", "code", template.root / "shop")
    template.refresh()
    (template.root / "shop" / "ship.py").write_text(SHIP)
    template.refresh()
    return template


@pytest.fixture
def shop(project: Project, shop_once: Project) -> Project:
    """A copy of it."""
    project.copy_store(shop_once)
    return project


def test_a_chunk_leads_to_the_refresh_that_wrote_it_and_its_first_release(shop: Project) -> None:
    with KnowledgeBase.open(shop.settings) as base:
        pay, ship = base.trace("code:pay.py"), base.trace("code:ship.py")
    assert (pay.first_release, ship.first_release, pay.release) == (1, 2, 2)
    assert [each.stage for each in pay.stages] == ["snapshot", "chunks", "graph", "embeddings", "index"]
    assert pay.stages[-1].done_at < ship.stages[0].done_at, "each is of the refresh that wrote it"
    assert all((each.code or "").startswith(version("knowledge-pipeline")) for each in pay.stages)
    assert set(pay.stages[0].settings) == {"source", "chunking", "model", "access"}
    assert pay.stages[0].settings == ship.stages[0].settings
    row = shop.lake.chunks("code", "code").read_rows(["uri", "fingerprint", "text_key"]).to_pylist()
    made = {each["uri"]: (each["fingerprint"], each["text_key"]) for each in row}
    assert (pay.chunk_fingerprint, pay.text_key) == made["pay.py"]


def test_settings_that_changed_have_another_digest(shop: Project) -> None:
    shop.sources["code"]["access"] = {"visibility": "tenant", "tenant": "acme"}
    with KnowledgeBase.open(shop.settings) as base:
        before = base.trace("code:pay.py")
        shop.refresh()
        after = base.trace("code:pay.py")
    then, now = before.stages[-1].settings, after.stages[-1].settings
    changed = {name for name in now if now[name] != then[name]}
    assert changed == {"access"} and after.first_release == 3


def test_what_may_not_be_seen_is_not_traced(shop: Project) -> None:
    shop.sources["code"]["access"] = {"visibility": "tenant", "tenant": "acme"}
    shop.refresh()
    with KnowledgeBase.open(shop.settings) as base, pytest.raises(NotFound):
        base.trace("code:pay.py", access=Access(tenant="other", principals=frozenset()))


def test_http_the_client_and_the_page_trace_a_result(shop: Project) -> None:
    with Running(shop.settings) as server, KnowledgeClient(server.url) as client:
        http = server.client()
        found = http.post("/api/v1/knowledge/search", json={"query": "pay an order"}).json()["results"][0]
        traced = http.get(f"/api/v1/knowledge/trace/{found['id']}").json()
        assert traced["stages"][-1]["stage"] == "index" and traced["stages"][-1]["run"] is None
        again = client.trace(found["id"])
        assert again["stages"] == traced["stages"]
        assert "by the command line" in http.get("/trace", params={"id": found["id"]}).text
        missing = http.get("/api/v1/knowledge/trace/code:nothing.py")
        assert missing.status_code == 404

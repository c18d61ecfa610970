"""Results say who last changed their lines, by git, at every interface."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from knowledge_pipeline import KnowledgeBase
from knowledge_pipeline.client import KnowledgeClient
from knowledge_pipeline.contract.requests import Task
from knowledge_pipeline.contract.responses import BlamedLines
from knowledge_pipeline.query.access import Access
from knowledge_pipeline_tests.conftest import Project
from knowledge_pipeline_tests.connectors.repositories import Repository
from knowledge_pipeline_tests.fakes.git_server import GitServer
from knowledge_pipeline_tests.fakes.github.server import GithubServer
from knowledge_pipeline_tests.serve.running import Running

PAY = "def pay(order):\n    amount = order.total\n    return amount\n"
PAY_TWICE = PAY.replace("order.total\n", "order.total\n    charge(amount)\n")
KEY = "ghp_" + "a1B2c3D4" * 4 + "e5F6"


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """A file that two people wrote; the second change came by a pull request, and says a secret."""
    made = Repository(tmp_path / "shop")
    made.write({"src/pay.py": PAY}).commit("Pay an order", author="Ada Byron")
    made.write({"src/pay.py": PAY_TWICE})
    made.commit(f"Charge at once (ann/shop#1)\n\nBecause orders were lost. {KEY}\n", author="Grace")
    return made


@pytest.fixture
def shop(project: Project, repository: Repository) -> Project:
    project.declare("code", "code", repository.root)
    project.refresh()
    return project


def blamed(base: KnowledgeBase, **how: object) -> list[tuple[str, str | None, str]]:
    found = base.search("pay an order", type="code", blame=True, **how).results[0].blame or ()
    return [(each.lines, each.author, each.subject) for each in found]


def test_each_line_has_the_commit_that_wrote_it_and_why(shop: Project, repository: Repository) -> None:
    with KnowledgeBase.open(shop.settings) as base:
        assert blamed(base) == [
            ("L1-L2", "Ada Byron", "Pay an order"),
            ("L3", "Grace", "Charge at once (ann/shop#1)"),
            ("L4", "Ada Byron", "Pay an order"),
        ]
        (result,) = base.get("code:src/pay.py", blame=True).results
        last = (result.blame or ())[1]
        assert last.commit == repository.git("rev-parse", "HEAD")
        assert last.committed and last.committed.timestamp() == repository.clock
        assert "Because orders were lost." in last.message
        assert KEY not in last.message and "[REDACTED:" in last.message
        assert base.search("pay an order", type="code").results[0].blame is None, "only on request"


def test_lines_are_blamed_as_they_were_indexed(shop: Project, repository: Repository) -> None:
    repository.write({"src/pay.py": "import money\n\n\n" + PAY_TWICE}).commit("Import money", author="Eve")
    with KnowledgeBase.open(shop.settings) as base:
        assert [author for _, author, _ in blamed(base)] == ["Ada Byron", "Grace", "Ada Byron"]


def test_what_is_not_committed_says_that_git_could_not_be_asked(
    shop: Project, repository: Repository
) -> None:
    repository.write({"src/pay.py": PAY.replace("pay", "pay_now")})
    shop.refresh()
    with KnowledgeBase.open(shop.settings) as base:
        response = base.search("pay an order", type="code", blame=True, explain=True)
        assert response.results[0].blame is None and "blame" in response.degraded
        assert response.explain and "not committed as it was indexed" in response.explain["degraded"]["blame"]


def test_a_folder_below_the_root_and_a_mirror_are_blamed_too(
    project: Project, repository: Repository, tmp_path: Path
) -> None:
    project.declare("part", "code", repository.root / "src")
    with GitServer(tmp_path) as server:
        connection = {"type": "git", "url": f"{server.url}/shop/.git"}
        project.sources["remote"] = {"id": "remote", "type": "code", "connection": connection}
        project.refresh()
        asked = len(server.requests)
        with KnowledgeBase.open(project.settings) as base:
            for document in ("part:pay.py", "remote:src/pay.py"):
                (result,) = base.get(document, blame=True).results
                assert [each.author for each in result.blame or ()] == ["Ada Byron", "Grace", "Ada Byron"]
        assert len(server.requests) == asked, "the mirror answers"


def test_a_folder_without_a_repository_says_so(project: Project, tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "pay.py").write_text(PAY)
    project.declare("plain", "code", tmp_path / "plain")
    project.refresh()
    with KnowledgeBase.open(project.settings) as base:
        response = base.search("pay an order", blame=True, explain=True)
        assert response.explain is not None
        assert response.explain["degraded"]["blame"] == "plain has no git repository on this machine"


def test_pull_requests_are_those_that_the_caller_may_see(shop: Project) -> None:
    def pulls(access: Access) -> list[str]:
        found: tuple[BlamedLines, ...] = (
            base.get("code:src/pay.py", blame=True, access=access).results[0].blame or ()
        )
        return [document.uri for each in found for document in each.pull_requests]

    with GithubServer(repository="ann/shop") as github:
        uri = github.repository.pull("Charge at once", "Orders were lost.")
        shop.sources["pulls"] = {
            **{"id": "pulls", "type": "github_pr", "connection": github.connection()},
            "access": {"visibility": "private", "tenant": "acme", "principals": ["ann"]},
        }
        shop.refresh("pulls")
    with KnowledgeBase.open(shop.settings) as base:
        assert pulls(Access.operator()) == [uri]
        assert pulls(Access(tenant=None, principals=frozenset())) == []


@pytest.fixture
def server(shop: Project) -> Iterator[Running]:
    with Running(shop.settings) as running:
        yield running


def test_http_the_client_and_the_page_say_it(server: Running) -> None:
    http = server.client()
    body = {"query": "pay an order", "type": "code", "blame": True}
    (found,) = http.post("/api/v1/knowledge/search", json=body).json()["results"]
    assert [each["author"] for each in found["blame"]] == ["Ada Byron", "Grace", "Ada Byron"]
    got = http.get(f"/api/v1/knowledge/{found['id']}", params={"blame": "true"}).json()
    assert got["results"][0]["blame"] == found["blame"]
    assert "blame" not in http.get(f"/api/v1/knowledge/{found['id']}").json()["results"][0]
    wrong = http.post("/api/v1/knowledge/search", json={**body, "blame": "perhaps"})
    assert wrong.status_code == 422 and "blame" in wrong.text
    with KnowledgeClient(server.url) as client:
        assert client.search("pay an order", blame=True)["results"][0]["blame"] == found["blame"]
        assert client.get(found["id"], blame=True)["results"][0]["blame"] == found["blame"]
    assert f"/blame?id={found['id']}" in http.get("/", params={"q": "pay an order"}).text
    page = http.get("/blame", params={"id": found["id"]}).text
    assert "Grace" in page and "Charge at once" in page and KEY not in page


def test_a_review_is_told_who_changed_what_it_is_shown(shop: Project) -> None:
    with KnowledgeBase.open(shop.settings) as base:
        review = base.context(Task("pay an order twice", kind="code_review"), max_tokens=1000)
        assert "line 3 by Grace, 2020-09-13: Charge at once" in review.text
        assert review.tokens <= 1000
        assert "Grace" not in base.context(Task("pay an order twice"), max_tokens=1000).text


def test_a_shallow_clone_does_not_name_who_cut_it_off(
    project: Project, repository: Repository, tmp_path: Path
) -> None:
    clone = tmp_path / "clone"
    repository.git("clone", "-q", "--depth", "1", f"file://{repository.root}", str(clone))
    project.declare("code", "code", clone)
    Repository(clone).write({"src/pay.py": PAY_TWICE.replace("return amount", "return 2")}).commit("Two")
    project.refresh()
    with KnowledgeBase.open(project.settings) as base:
        assert blamed(base) == [("L4", "Ada Byron", "Two")]
        response = base.search("pay an order", type="code", blame=True, explain=True)
        assert response.explain is not None and "blame" in response.degraded
        problem = "the clone of code is shallow: older commits wrote some lines"
        assert response.explain["degraded"]["blame"] == problem
        Repository(clone).git("fetch", "-q", "--unshallow")
        assert [author for _, author, _ in blamed(base)] == ["Ada Byron", "Grace", "Ada Byron"]


def test_a_partial_clone_blames_what_it_can(project: Project, repository: Repository, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    repository.write({"src/new.py": "def refund(order):\n    return -order.total\n"}).commit("Refund")
    repository.git("config", "uploadpack.allowFilter", "true")
    repository.git("clone", "-q", "--filter=blob:none", f"file://{repository.root}", str(clone))
    project.declare("code", "code", clone)
    project.refresh()
    with KnowledgeBase.open(project.settings) as base:
        response = base.search("pay an order, refund order total", type="code", blame=True, explain=True)
        by_path = {result.citation.path: result.blame for result in response.results}
        assert by_path["src/pay.py"] is None and by_path["src/new.py"]
        assert response.explain is not None
        assert "is a partial clone, which lacks earlier" in response.explain["degraded"]["blame"]

"""The log of questions and the feedback on their results, in real tables."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from knowledge_pipeline import Access, KnowledgeBase
from knowledge_pipeline.config.operation import LogSettings
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.contract.responses import SearchResponse
from knowledge_pipeline.errors import InvalidQuery, NotFound, StoreUnavailable
from knowledge_pipeline.query import logs as query_log
from knowledge_pipeline.query import logs as row_writer
from knowledge_pipeline.query.access import Caller
from knowledge_pipeline.query.logs import QueryLog
from knowledge_pipeline.store import lake as store_lake
from knowledge_pipeline.store.lake import Lake, lock_log
from knowledge_pipeline.store.local_state import FILE, has_waiting_rows
from knowledge_pipeline_tests.full_disk import limited_files
from knowledge_pipeline_tests.query.search.rows import publish, row, write

JANE = Access("acme", frozenset({"jane", "devs"}))


@pytest.fixture
def base(base: KnowledgeBase, lake: Lake, space: str) -> KnowledgeBase:
    write(lake, space, [row("alpha", "a.py"), row("beta", "b.md", source="docs", source_type="markdown")])
    publish(lake)
    return base


def rows(lake: Lake, name: str = "queries") -> list[dict]:
    table = lake.log_table(name)
    return sorted(table.read_rows(table.schema.names).to_pylist(), key=lambda row: row["at"])


def answer(query_id: str) -> SearchResponse:
    return SearchResponse(query_id, 1.5, 1, ("vector",), (), {})


def test_every_answered_question_is_one_row(base: KnowledgeBase, lake: Lake) -> None:
    answers = [
        base.search("alpha", type="code", access=JANE),
        base.similar(path="a.py"),
        base.similar(text="beta", limit=1),
        base.get("app:a.py"),
    ]
    base.status()
    with pytest.raises(NotFound):
        base.get("app:no-such.py")
    base.close()
    logged = rows(lake)
    assert [row["query_id"] for row in logged] == [answer.query_id for answer in answers]
    assert [row["type"] for row in logged] == ["code", "similar", "similar", "get"]
    assert [row["text"] for row in logged] == ["alpha", "a.py", "beta", "app:a.py"]
    assert [row["results"] for row in logged] == [len(answer.results) for answer in answers]
    for each, answer in zip(logged[:3], answers, strict=False):
        assert each["scores"] == pytest.approx([result.score for result in answer.results], abs=1e-4)
        rankings = [result.ranking for result in answer.results]
        assert all(rankings) and not any(result.explain for result in answer.results)
        for column, attribute in (("vector_scores", "vector_score"), ("text_scores", "bm25_score")):
            expected = [getattr(ranking, attribute) for ranking in rankings]
            assert each[column] == pytest.approx(expected)
    assert any(filter(None, (score for row in logged[:3] for score in row["vector_scores"])))
    for column in ("scores", "vector_scores", "text_scores"):
        assert logged[3][column] is None, "it was looked up by its id"
    assert (logged[0]["tenant"], logged[0]["principals"]) == ("acme", ["devs", "jane"])
    assert (logged[1]["tenant"], logged[1]["principals"]) == (None, [])
    assert {row["release"] for row in logged} == {1} and not any(row["cached"] for row in logged)
    assert all(row["took_ms"] > 0 for row in logged)


def test_secrets_are_redacted_and_long_texts_cut_after_that(base: KnowledgeBase, lake: Lake) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    base.search(f"why is {secret} refused \x00 \ud800")
    base.similar(text="x" * (query_log.MAX_LOGGED_CHARS - 12) + f" {secret} tail")
    base.close()
    first, second = rows(lake)
    assert first["text"] == "why is [REDACTED:github_token] refused ? ?"
    assert "ghp_" not in second["text"] and len(second["text"]) == query_log.MAX_LOGGED_CHARS


def test_no_secret_at_the_end_of_what_is_read_of_a_long_text_is_logged() -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    for length in range(19_950, 20_010):
        many = f"{secret} " * 600  # which shrink to less than what is logged
        for text in ("x" * (length - 41) + f" {secret} tail", many[:length], "x" * length):
            assert "ghp_" not in query_log.redact(text)
    assert len(query_log.redact("y" * 200_000)) == query_log.MAX_LOGGED_CHARS


def test_what_was_asked_is_written_within_seconds_and_not_at_once(lake: Lake) -> None:
    log = QueryLog(lake, flush_interval_s=3.0)
    log.start()
    log.record("semantic", "first", JANE, answer("1"))
    assert rows(lake) == []
    wait_for(lake, 1)
    for number in range(row_writer.BATCH_ROWS):
        log.record("semantic", "more", JANE, answer(str(number)))
    wait_for(lake, 1 + row_writer.BATCH_ROWS)
    log.close()


def test_a_hundred_questions_are_written_without_waiting(lake: Lake) -> None:
    log = QueryLog(lake, flush_interval_s=600)
    log.start()
    for number in range(row_writer.BATCH_ROWS):
        log.record("semantic", "more", JANE, answer(str(number)))
    wait_for(lake, row_writer.BATCH_ROWS)
    log.close()


def wait_for(lake: Lake, count: int) -> None:
    deadline = time.monotonic() + 120
    while lake.log_table("queries").count_rows() < count:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_with_the_log_switched_off_only_ids_that_were_given_are_judged(
    settings: Settings, base: KnowledgeBase, lake: Lake
) -> None:
    silent = settings.model_copy(update={"logs": LogSettings(queries=False)})
    with KnowledgeBase.open(silent) as first:
        made = first.search("alpha", access=JANE)
    with KnowledgeBase.open(silent) as later:
        for never in ("any", str(uuid.uuid4()), made.query_id[:-1], made.query_id[:-1] + "\udc80", "-"):
            with pytest.raises(NotFound, match=r"there is no query .*: give the query_id of a response"):
                later.feedback(never, made.results[0].id, "useful", access=JANE)
        with pytest.raises(NotFound):
            later.feedback(made.query_id, made.results[0].id, "useful", access=Access.public())
        later.feedback(made.query_id, made.results[0].id, "useful", access=JANE)
        for place in range(len(made.query_id)):  # an operator, who may judge what anyone asked
            other = "0" if made.query_id[place] != "0" else "1"
            with pytest.raises(NotFound):
                later.feedback(f"{made.query_id[:place]}{other}{made.query_id[place + 1 :]}", "x", "useful")
    assert not lake.log_table("queries").exists
    assert [row["query_id"] for row in rows(lake, "feedback")] == [made.query_id]


@pytest.mark.slow
def test_a_store_that_cannot_be_written_is_said_once_and_answers_go_on(
    base: KnowledgeBase, lake: Lake, caplog: pytest.LogCaptureFixture
) -> None:
    (lake.root / "logs").write_text("in the way of the folder")
    with caplog.at_level(logging.WARNING, "knowledge_pipeline"):
        for _ in range(2 * row_writer.BATCH_ROWS):
            assert base.get("app:a.py").results
        base.close()
    (told,) = [record.getMessage() for record in caplog.records]
    assert told.startswith("queries are not logged (") and "logs.queries" in told and "\n" not in told


def test_each_time_that_the_disk_is_full_is_said_once(lake: Lake, caplog: pytest.LogCaptureFixture) -> None:
    log = QueryLog(lake, durable=True)
    with caplog.at_level(logging.WARNING, "knowledge_pipeline"):
        for number in (1, 2):
            with limited_files(0):
                log.record("semantic", "first", JANE, answer(f"{number}a"))
                log.record("semantic", "second", JANE, answer(f"{number}b"))
            assert log.is_failing and len(caplog.records) == number
            log.record("semantic", "third", JANE, answer(f"{number}c"))
            assert not log.is_failing
    log.close()


def test_a_log_that_is_required_takes_a_row_or_fails(settings: Settings, base: KnowledgeBase) -> None:
    required = settings.model_copy(update={"logs": LogSettings(required=True)})
    with KnowledgeBase.open(required) as strict:
        strict.search("alpha")
        with limited_files(0), pytest.raises(StoreUnavailable, match=r"`logs\.required` refuses"):
            strict.search("alpha")
        assert strict.search("alpha").results


def test_a_log_cannot_be_required_and_switched_off() -> None:
    with pytest.raises(ValueError, match="required needs queries: true"):
        LogSettings(queries=False, required=True)


@pytest.mark.slow
def test_neither_noting_nor_closing_waits_for_a_store_that_hangs(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_lake, "LOG_TIMEOUT_S", 600.0)
    log = QueryLog(lake, flush_interval_s=0.0)
    log.start()
    with lock_log(lake, "queries"):
        began = time.monotonic()
        for number in range(3 * row_writer.MAX_PENDING_ROWS):
            log.record("semantic", "more", JANE, answer(str(number)))
        log.close(wait_s=0.2)
        assert time.monotonic() - began < 60
    wait_for(lake, row_writer.MAX_PENDING_ROWS)
    assert (
        lake.log_table("queries").count_rows() <= 2 * row_writer.MAX_PENDING_ROWS
    )  # of one write under way, and those behind


ASKING = """
import sys
import time
from pathlib import Path
import lancedb  # as whatever has answered a question has
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.contract.responses import SearchResponse
from knowledge_pipeline.query.logs import QueryLog
from knowledge_pipeline.store.lake import Lake
log = QueryLog(Lake(Path(sys.argv[1])), flush_interval_s=0.1)
log.start()
for number in range(300):
    time.sleep(0.002)
    response = SearchResponse(f"{sys.argv[2]}-{number}", 1.0, 1, (), (), {})
    log.record("code", "some text", Access.public(), response)
if sys.argv[3] == "close":
    log.close()
"""


def processes(lake: Lake, count: int, ending: str) -> Iterator[subprocess.Popen]:
    for number in range(count):
        command = [sys.executable, "-c", ASKING, str(lake.root), str(number), ending]
        yield subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["close", "forget"])
def test_several_processes_write_at_once_and_at_their_end_and_no_row_is_lost(lake: Lake, ending: str) -> None:
    for process in list(processes(lake, 3, ending)):
        assert "not logged" not in process.communicate(timeout=240)[1]
        assert process.returncode == 0
    ids = [row["query_id"] for row in rows(lake)]
    assert sorted(ids) == sorted(f"{number}-{at}" for number in range(3) for at in range(300))


def test_feedback_is_one_row_a_judgement(base: KnowledgeBase, lake: Lake) -> None:
    made = base.search("alpha", access=JANE)
    chunk = made.results[0].id
    base.feedback(made.query_id, chunk, "clicked", access=JANE)
    base.feedback(made.query_id, chunk, "useless")  # an operator may judge what anyone asked
    base.close()
    given = rows(lake, "feedback")
    assert [(row["judgement"], row["tenant"]) for row in given] == [("clicked", "acme"), ("useless", None)]
    assert {(row["query_id"], row["result_id"]) for row in given} == {(made.query_id, chunk)}


def test_feedback_is_taken_on_questions_of_earlier_processes(
    settings: Settings, base: KnowledgeBase, lake: Lake
) -> None:
    made = base.search("alpha")
    base.close()
    with KnowledgeBase.open(settings) as later:
        later.feedback(made.query_id, made.results[0].id, "useful")
    assert len(rows(lake, "feedback")) == 1


def test_feedback_that_makes_no_sense_is_refused(base: KnowledgeBase, lake: Lake) -> None:
    made = base.search("alpha", access=JANE)
    with pytest.raises(InvalidQuery, match="'great'; allowed: clicked, useful, useless"):
        base.feedback(made.query_id, "x", "great")  # type: ignore[arg-type]
    for query_id, result_id in (("", "x"), (made.query_id, ""), (made.query_id, "x" * 501)):
        with pytest.raises(InvalidQuery, match="allowed: 1 to 500"):
            base.feedback(query_id, result_id, "useful")
    with pytest.raises(NotFound, match="no query"):
        base.feedback("unknown' OR 'a' = 'a", "x", "useful")
    with pytest.raises(NotFound):
        base.feedback(made.query_id, "x", "useful", access=Access("other", frozenset()))
    base.close()
    assert rows(lake, "feedback") == []


@pytest.mark.parametrize(
    "other",
    [
        Access.public(),  # without a tenant as the operator, and sees less
        Access("acme", frozenset({"john"})),
        Access("acme", frozenset({"jane"}), caller=Caller("http", "token1")),
        Access("acme", frozenset({"jane"}), caller=Caller("http")),
    ],
)
def test_nobody_judges_what_others_asked(base: KnowledgeBase, lake: Lake, other: Access) -> None:
    for asked_by in (Access.operator("cli"), JANE):
        made = base.search("alpha", access=asked_by)
        with pytest.raises(NotFound, match="there is no query"):
            base.feedback(made.query_id, made.results[0].id, "useful", access=other)
    mine = base.search("alpha", access=other)
    base.feedback(mine.query_id, "x", "useful", access=other)
    base.close()
    assert len(rows(lake, "feedback")) == 1


def test_a_holder_of_a_token_judges_by_another_interface(base: KnowledgeBase, lake: Lake) -> None:
    by_mcp, by_http = (replace(JANE, caller=Caller(name, "token1")) for name in ("mcp", "http"))
    made = base.search("alpha", access=by_mcp)
    base.feedback(made.query_id, made.results[0].id, "useful", access=by_http)
    base.close()
    assert len(rows(lake, "feedback")) == 1


def test_feedback_that_cannot_be_written_is_an_error(base: KnowledgeBase, lake: Lake) -> None:
    made = base.search("alpha")
    with limited_files(0), pytest.raises(StoreUnavailable, match="the feedback cannot be written"):
        base.feedback(made.query_id, "x", "useful")


def test_many_judgements_take_few_commits_and_search_no_log(base: KnowledgeBase, lake: Lake) -> None:
    asked = [base.search("alpha", access=JANE).query_id for _ in range(3)]
    before = lake.log_table("feedback").version
    for number in range(60):
        base.feedback(asked[number % 3], f"result {number}", "useful", access=JANE)
    base.close()
    assert len(rows(lake, "feedback")) == 60
    assert lake.log_table("feedback").version <= before + 6  # one, unless the machine is busy


JUDGING = """
import os
import sys
from pathlib import Path
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.logs import FeedbackLog
from knowledge_pipeline.query.logs import QueryIds
from knowledge_pipeline.store.lake import Lake
lake = Lake(Path(sys.argv[1]))
log = FeedbackLog(lake, QueryIds(lake), flush_interval_s=float(sys.argv[2]))
for number in range(1000):
    judged = {"query_id": sys.argv[3], "result_id": str(number), "judgement": "useful"}
    log.record(Access.operator(), **judged)
    print(number, flush=True)
"""


@pytest.mark.parametrize("every_s", [0.0, 600.0], ids=["while rows are written", "before any is"])
def test_a_kill_loses_and_doubles_no_judgement(base: KnowledgeBase, lake: Lake, every_s: float) -> None:
    made = base.search("alpha")
    command = [sys.executable, "-c", JUDGING, str(lake.root), str(every_s), made.query_id]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as killed:
        assert killed.stdout
        for line in killed.stdout:
            if int(line) >= 300:
                killed.kill()
                break
        taken = [int(line), *map(int, (last for last in killed.stdout if last.endswith("\n")))][-1]
    base.feedback(made.query_id, "after", "useless")
    base.close()
    found = [row["result_id"] for row in rows(lake, "feedback")]
    numbers = sorted(int(id_) for id_ in found if id_ != "after")
    assert numbers == list(range(len(numbers))) and taken < len(numbers) <= taken + 2
    assert found.count("after") == 1 and not has_waiting_rows(lake.folder, "feedback")


@pytest.mark.slow
def test_a_question_that_is_killed_leaves_the_log_readable(lake: Lake, tmp_path: Path) -> None:
    killed = ASKING.replace("if sys.argv", "import os; os.kill(os.getpid(), 9)\nif sys.argv")
    done = subprocess.run([sys.executable, "-c", killed, str(lake.root), "0", "close"], env=os.environ)
    assert done.returncode == -9
    log = QueryLog(lake)
    log.start()
    log.record("code", "after", JANE, answer("after"))
    log.close()
    assert rows(lake)[-1]["query_id"] == "after"


KILLED = """
import os
import sys
from pathlib import Path
import lancedb
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.contract.responses import SearchResponse
from knowledge_pipeline.query.logs import QueryLog
from knowledge_pipeline.store.lake import Lake
log = QueryLog(Lake(Path(sys.argv[1])), flush_interval_s=float(sys.argv[2]), durable=True)
log.start()
number = 0
while True:
    log.record("code", "some text", Access.public(), SearchResponse(str(number), 1.0, 1, (), (), {}))
    print(number, flush=True)
    number += 1
"""


@pytest.mark.sampled
@pytest.mark.parametrize("every_s", [0.0, 600.0], ids=["while rows are written", "before any is"])
def test_a_kill_loses_no_line_of_an_answer_that_was_given(lake: Lake, every_s: float) -> None:
    command = [sys.executable, "-c", KILLED, str(lake.root), str(every_s)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as killed:
        assert killed.stdout
        for line in killed.stdout:
            if int(line) >= 250:
                killed.kill()
                break
        given = [int(line), *map(int, (last for last in killed.stdout if last.endswith("\n")))][-1]
    later = QueryLog(lake, flush_interval_s=0.0, durable=True)
    later.start()
    wait_for(lake, given + 1)
    later.close()
    ids = [int(row["query_id"]) for row in rows(lake)]
    assert sorted(ids) == list(range(len(ids)))  # each once
    assert given + 1 <= len(ids) <= given + 2
    assert not has_waiting_rows(lake.folder, "queries")


def test_what_several_processes_have_not_written_yet_is_written_once(lake: Lake) -> None:
    first = QueryLog(lake, flush_interval_s=600, durable=True)
    first.start()
    first.record("semantic", "mine", JANE, answer("1"))
    second = QueryLog(lake, flush_interval_s=0.0, durable=True)
    second.start()
    second.record("semantic", "other", JANE, answer("2"))
    wait_for(lake, 2)
    second.close()
    first.close()
    assert [row["query_id"] for row in rows(lake)] == ["1", "2"]
    assert not has_waiting_rows(lake.folder, "queries")


def test_lines_wait_for_a_store_that_cannot_be_written_to_be_mended(lake: Lake) -> None:
    in_the_way = lake.root / "logs" / "queries.lance"
    in_the_way.parent.mkdir(parents=True)
    in_the_way.write_text("in the way of the table")
    log = QueryLog(lake, flush_interval_s=0.0, durable=True)
    log.start()
    log.record("semantic", "first", JANE, answer("1"))
    log.close()
    in_the_way.unlink()
    later = QueryLog(lake, flush_interval_s=0.0, durable=True)
    later.start()
    wait_for(lake, 1)
    later.close()
    (row,) = rows(lake)
    assert (row["query_id"], row["text"], row["interface"]) == ("1", "first", "python")


def test_a_secret_is_redacted_before_its_line_is_on_disk(lake: Lake) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    log = QueryLog(lake, flush_interval_s=600, durable=True)
    log.record("semantic", f"why is {secret} refused", JANE, answer("1"))
    written = b"".join(path.read_bytes() for path in lake.folder.glob(f"{FILE}*"))
    assert b"refused" in written
    assert secret.encode() not in written
    log.close()

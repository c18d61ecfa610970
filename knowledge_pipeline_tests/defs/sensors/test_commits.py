"""The sensor `changed_sources` over real repositories: one run for each commit, and none is lost."""

import json
import shutil
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from knowledge_pipeline.connectors.git.remote_heads import build_queries, group_by_watched_branch
from knowledge_pipeline.defs.commit_sensors import (
    MAX_SEPARATE_REPOSITORIES,
    CommitCursor,
    changed_sources,
    parse_cursor,
    poll_repositories,
)
from knowledge_pipeline.defs.jobs import build_source_jobs
from knowledge_pipeline.defs.runs import build_refresh_requests
from knowledge_pipeline_tests.connectors.repositories import Repository
from knowledge_pipeline_tests.counted import audited
from knowledge_pipeline_tests.defs.watching import Watch, sources_of_run


@pytest.fixture
def watch(tmp_path: Path) -> Watch:
    return Watch(tmp_path / "project", changed_sources())


@pytest.fixture
def shop(tmp_path: Path) -> Repository:
    repository = Repository(tmp_path / "shop")
    repository.write({"a.py": "a = 1\n"}).commit()
    return repository


def test_a_commit_is_one_run_of_all_sources_of_the_repository(
    watch: Watch, shop: Repository, instance: dg.DagsterInstance
) -> None:
    url = shop.root.as_uri()
    watch.declare("code", over=url)
    watch.declare("docs", "markdown", over=url)
    watch.declare("never", over=url, refresh={"trigger": "weekly"})
    watch.tick(instance)
    assert watch.runs(instance) == []
    commit = shop.commit()
    (request,) = watch.tick(instance).run_requests or ()
    assert sorted(sources_of_run(request)) == ["code", "docs"]
    assert request.job_name == "refresh"
    assert request.run_key == f"{url}@{commit} 3"
    assert {key: request.tags[f"knowledge/{key}"] for key in ("trigger", "repository", "commit")} == {
        "trigger": "commit",
        "repository": url,
        "commit": commit,
    }
    assert "no new commit in 1 repositories" in (watch.tick(instance).skip_message or "")


@pytest.mark.storage
def test_what_is_seen_for_the_first_time_is_refreshed_once(
    watch: Watch, shop: Repository, tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    for number in range(3):
        watch.declare(f"shop-{number}", over=shop.root.as_uri(), branch="main")
    watch.declare("folder", over=shop.root)
    watch.declare("empty", over=str(Repository(tmp_path / "empty").root))
    watch.known(instance)
    (request,) = watch.tick(instance).run_requests or ()
    assert sorted(sources_of_run(request)) == ["empty", "folder", "shop-0", "shop-1", "shop-2"]
    assert request.tags["knowledge/trigger"] == "first_sight"
    assert watch.runs(instance) == []


@pytest.mark.storage
def test_what_a_run_is_still_to_read_for_the_first_time_is_left_to_it(
    watch: Watch, shop: Repository, instance: dg.DagsterInstance
) -> None:
    watch.declare("code", over=shop.root.as_uri())
    assert watch.runs(instance) == [], "sources_in_config will ask for it"
    watch.known(instance)
    shop.commit()
    assert watch.runs(instance) == [["code"]]


@pytest.mark.storage
def test_what_is_being_read_for_the_first_time_is_looked_at_again(
    watch: Watch, shop: Repository, instance: dg.DagsterInstance
) -> None:
    watch.declare("code", over=shop.root.as_uri())
    watch.declare("docs", "markdown", over=shop.root.as_uri())
    watch.known(instance)
    (first,) = build_refresh_requests([watch.settings.sources[0]], trigger="added")
    job = dg.Definitions(jobs=build_source_jobs(), resources={"project": watch.resource}).resolve_job_def(
        "refresh"
    )
    run = instance.create_run_for_job(job, run_config=first.run_config, status=dg.DagsterRunStatus.STARTED)
    assert watch.runs(instance) == watch.runs(instance) == []
    instance.report_run_canceled(run)
    assert watch.runs(instance) == [["code", "docs"]]
    assert watch.runs(instance) == []


def test_a_commit_of_another_branch_starts_nothing(
    watch: Watch, shop: Repository, instance: dg.DagsterInstance
) -> None:
    shop.git("branch", "stable")
    watch.declare("stable", over=shop.root.as_uri(), branch="stable")
    watch.tick(instance)
    shop.commit()
    assert watch.runs(instance) == []
    shop.git("branch", "-f", "stable", "main")
    assert watch.runs(instance) == [["stable"]]


def test_a_commit_of_a_further_branch_starts_a_run(
    watch: Watch, shop: Repository, instance: dg.DagsterInstance
) -> None:
    watch.declare("main", over=shop.root.as_uri(), branch="main")
    watch.declare("all", over=shop.root.as_uri(), branch="main", branches=["next*"])
    watch.tick(instance)
    shop.git("branch", "next-1")
    assert watch.runs(instance) == [["all"]]
    shop.git("branch", "other")
    assert watch.runs(instance) == []
    shop.git("branch", "-D", "next-1")
    assert watch.runs(instance) == [["all"]]
    shop.commit()
    assert sorted(watch.runs(instance)) == [["all"], ["main"]]


def test_branches_that_stand_at_one_commit_share_a_run(
    watch: Watch, shop: Repository, instance: dg.DagsterInstance
) -> None:
    watch.declare("head", over=shop.root.as_uri())
    watch.declare("main", over=shop.root.as_uri(), branch="main")
    watch.tick(instance)
    shop.commit()
    assert [sorted(run) for run in watch.runs(instance)] == [["head", "main"]]


def test_a_force_push_back_to_an_older_commit_runs_again(
    watch: Watch, shop: Repository, instance: dg.DagsterInstance
) -> None:
    watch.declare("code", over=shop.root.as_uri())
    older = shop.git("rev-parse", "HEAD")
    watch.tick(instance)
    keys = []
    for _ in range(2):
        shop.commit()
        watch.tick(instance)
        shop.git("reset", "-q", "--hard", older)
        keys += [request.run_key for request in watch.tick(instance).run_requests or ()]
    assert len(set(keys)) == 2
    assert all(older in str(key) for key in keys)


def test_a_deleted_branch_is_one_run_and_then_silence(
    watch: Watch, shop: Repository, instance: dg.DagsterInstance
) -> None:
    shop.git("branch", "stable")
    watch.declare("stable", over=shop.root.as_uri(), branch="stable")
    watch.tick(instance)
    shop.git("branch", "-D", "stable")
    (request,) = watch.tick(instance).run_requests or ()
    assert request.tags["knowledge/commit"] == "gone"
    assert watch.runs(instance) == watch.runs(instance) == []
    shop.git("branch", "stable")
    assert watch.runs(instance) == [["stable"]]


def test_a_commit_made_while_a_repository_was_unreachable_is_not_lost(
    watch: Watch, shop: Repository, tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    other = Repository(tmp_path / "other")
    other.commit()
    watch.declare("shop", over=shop.root.as_uri())
    watch.declare("other", over=other.root.as_uri())
    watch.tick(instance)
    shop.commit()
    shop.root.rename(tmp_path / "away")
    assert "1 did not answer: git repository file://" in (watch.tick(instance).skip_message or "")
    other.commit()
    assert watch.runs(instance) == [["other"]], "the others go on"
    (tmp_path / "away").rename(shop.root)
    assert watch.runs(instance) == [["shop"]]


def test_who_fails_again_and_again_is_asked_less_often(
    watch: Watch, tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    watch.declare("gone", over=(tmp_path / "gone").as_uri())
    watch.known(instance)
    for _ in range(3):
        asked_at = time.time()
        assert "did not answer" in (watch.tick(instance).skip_message or "")
    answered_at = time.time()
    assert "did not answer" not in (watch.tick(instance).skip_message or ""), "it was asked though it pauses"
    cursor = json.loads(watch.cursor or "")["commits"]
    ((count, until),) = cursor["failing"].values()
    assert count == 3
    assert asked_at + 59 <= until <= answered_at + 60  # in whole seconds
    Repository(tmp_path / "gone").commit()
    cursor["failing"] = {name: (count, time.time() - 1) for name in cursor["failing"]}
    remember(watch, cursor)
    assert watch.runs(instance) == [["gone"]]
    assert parse_cursor(watch.cursor)[0].failing == {}


def test_a_pause_is_ten_minutes_at_most() -> None:
    cursor = CommitCursor()
    pauses = []
    for _ in range(1000):
        cursor.record_failure("gone", 0.0)
        pauses.append(cursor.failing["gone"][1])
    assert pauses[:7] == [0, 0, 60, 120, 240, 480, 600]
    assert max(pauses) == 600


def test_who_had_no_turn_is_asked_first_at_the_next_tick() -> None:
    cursor = CommitCursor(next="c")
    assert cursor.list_due_repositories("dbac", 0.0) == ["c", "d", "a", "b"]


def test_head_that_names_another_branch_is_noticed_within_ten_minutes(
    watch: Watch, shop: Repository, instance: dg.DagsterInstance
) -> None:
    watch.declare("code", over=shop.root.as_uri())
    watch.tick(instance)
    shop.git("checkout", "-q", "-b", "next")
    shop.commit()
    assert watch.runs(instance) == []
    cursor, _ = parse_cursor(watch.cursor)
    ((asked_at_s, _),) = cursor.hosts.values()
    looked_up = [cursor.known_head(shop.root.as_uri(), asked_at_s + second) for second in range(601)]
    assert looked_up[0] == "main"
    assert looked_up[-1] is None
    cursor.hosts = {host: (at_s - 600, count) for host, (at_s, count) in cursor.hosts.items()}
    remember(watch, asdict(cursor))
    assert watch.runs(instance) == [["code"]]


def test_what_is_no_longer_configured_leaves_the_cursor(
    watch: Watch, shop: Repository, tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    shop.git("branch", "stable")
    other = Repository(tmp_path / "other")
    other.commit()
    watch.declare("stable", over=shop.root.as_uri(), branch="stable")
    watch.declare("main", over=shop.root.as_uri(), branch="main")
    watch.declare("other", over=other.root.as_uri())
    watch.tick(instance)
    del watch.sources["stable"], watch.sources["other"]
    watch.tick(instance)
    stood = parse_cursor(watch.cursor)[0].stood
    assert list(stood) == [shop.root.as_uri()]
    assert list(stood[shop.root.as_uri()]) == ["main"]


@pytest.mark.slow
def test_commits_in_very_many_repositories_share_runs(
    watch: Watch, tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    first = Repository(tmp_path / "r0")
    first.commit()
    count = MAX_SEPARATE_REPOSITORIES + 1
    for number in range(1, count):
        shutil.copytree(first.root, tmp_path / f"r{number}")
    for number in range(count):
        watch.declare(f"s{number:02}", over=tmp_path / f"r{number}")
    watch.tick(instance)
    for number in range(count):
        Repository(tmp_path / f"r{number}").commit()
    (request,) = watch.tick(instance).run_requests or ()
    assert len(sources_of_run(request)) == count
    Repository(tmp_path / "r0").commit("another")
    assert watch.runs(instance) == [["s00"]]


def test_a_local_folder_is_refreshed_by_commits_of_its_repository(
    watch: Watch, shop: Repository, tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    watch.declare("code", over=shop.root)
    watch.declare("watched", over=shop.root, refresh={"trigger": "realtime"})
    watch.declare("loose", over=tmp_path / "loose")
    watch.tick(instance)
    shop.commit()
    assert watch.runs(instance) == [["code"]]


def test_a_wrong_file_keeps_the_cursor(watch: Watch, shop: Repository, instance: dg.DagsterInstance) -> None:
    watch.declare("code", over=shop.root.as_uri())
    watch.tick(instance)
    shop.commit()
    watch.path.write_text("sources: nonsense\n")
    assert "knowledge.yaml:1:" in (watch.tick(instance, save=False).skip_message or "")
    assert watch.runs(instance) == [["code"]]


def test_a_cursor_that_cannot_be_read_counts_as_none(
    watch: Watch, shop: Repository, instance: dg.DagsterInstance
) -> None:
    watch.declare("code", over=shop.root.as_uri())
    watch.known(instance)
    commits = '{"tick":1,"stood":[],"heads":{},"failing":{},"next":"","hosts":{}}'
    for nonsense in ("{", "[]", '{"tick": 1}', f'{{"commits":{commits},"files":{{}}}}'):
        watch.cursor = nonsense
        assert watch.runs(instance) == [["code"]]


def test_a_tick_that_was_lost_is_asked_for_again_under_the_same_keys(
    watch: Watch, shop: Repository, instance: dg.DagsterInstance
) -> None:
    watch.declare("code", over=shop.root.as_uri())
    watch.tick(instance)
    shop.commit()
    lost, again = watch.tick(instance, die=True), watch.tick(instance)
    assert [request.run_key for request in lost.run_requests or ()] == [
        request.run_key for request in again.run_requests or ()
    ]


def copies(root: Path, count: int) -> list[Path]:
    """Repositories with one commit each."""
    first = Repository(root / "r000")
    first.write({"a.py": "a = 1\n"}).commit()
    rest = [root / f"r{number:03}" for number in range(1, count)]
    for folder in rest:
        shutil.copytree(first.root, folder)
    return [first.root, *rest]


def test_every_repository_has_its_turn_though_a_tick_has_no_time_for_all(
    watch: Watch, tmp_path: Path
) -> None:
    for folder in copies(tmp_path, 40):
        watch.declare(folder.name, over=folder.as_uri())
    watches, cursor, ticks = group_by_watched_branch(watch.settings.sources), CommitCursor(), 0
    waiting = len(build_queries(watches))
    budget_s = 0.06  # for a few of them, and more at each tick: a busy machine may be slower
    while waiting and ticks < 100:
        news = poll_repositories(watches, cursor, budget_s=budget_s * 1.1**ticks)
        assert not news.failed, "who was cut short by the budget did not fail"
        waiting, ticks = len(build_queries(watches)) - len(cursor.stood), ticks + 1
    assert waiting == 0
    assert ticks > 1, "there was time for all, so nothing was tested"


@pytest.mark.slow
def test_a_look_at_two_thousand_sources_asks_each_of_two_hundred_repositories_once_and_memory_stays_flat(
    watch: Watch, tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    folders = copies(tmp_path, 200)
    for number in range(2000):
        folder = folders[number % 200]
        watch.declare(f"s{number:04}", over=folder if number % 2 else folder.as_uri())
    watch.write()
    kilobytes = []
    for _ in range(8):
        with audited("subprocess.Popen") as processes:
            watch.tick(instance, save=False)
        assert processes, "nobody was asked"
        ask_again(watch)
        assert len(processes) <= 2 * len(folders), "one for a path, one for an address, of each"
        kilobytes.append(resident_kb())
    assert (
        parse_cursor(watch.cursor)[0].stood.keys()
        == build_queries(group_by_watched_branch(watch.settings.sources)).keys()
    )
    assert kilobytes[-1] - kilobytes[2] < 20_000
    Repository(folders[7]).commit()
    assert sum(map(len, watch.runs(instance, save=False))) == 10


def ask_again(watch: Watch) -> None:
    """Forget when the hosts were asked, as half a minute later."""
    remember(watch, json.loads(watch.cursor or "")["commits"] | {"hosts": {}})


def remember(watch: Watch, commits: dict[str, Any]) -> None:
    """Replace what the sensor remembers of repositories."""
    watch.cursor = json.dumps(json.loads(watch.cursor or "") | {"commits": commits})


def resident_kb() -> int:
    """Memory of this process."""
    (line,) = (
        line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS")
    )
    return int(line.split()[1])

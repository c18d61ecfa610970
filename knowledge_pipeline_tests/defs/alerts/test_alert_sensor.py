"""The sensor `failed_runs` over a real instance with runs that really fail."""

import re
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from knowledge_pipeline.config.file import load_settings
from knowledge_pipeline.defs.alerts import ALERT_TAG, GROUPED_TAG, build_failed_runs_sensor
from knowledge_pipeline.defs.assets import build_release_job
from knowledge_pipeline.defs.code_location import build_defs
from knowledge_pipeline_tests.defs.conftest import Workplace
from knowledge_pipeline_tests.fakes.mail_server import MailServer
from knowledge_pipeline_tests.fakes.slack.webhook import Answer, SlackWebhook

PAGE = Path(__file__).parents[3] / "docs" / "alerts.md"
TOKEN = "gh" + "p_" + "a1B2" * 9


class Breakage(dg.Config):
    reason: str = ""
    bug: str = ""


@dg.op
def refresh_sources(config: Breakage) -> None:
    if config.bug:
        raise ZeroDivisionError(config.bug)
    raise dg.Failure(config.reason, allow_retries=False)


@dg.job
def refresh() -> None:
    refresh_sources()


class Operator:
    """Breaks runs, and evaluates the sensor as the daemon does."""

    def __init__(self, workplace: Workplace, instance: dg.DagsterInstance, slack: SlackWebhook) -> None:
        self.workplace, self.instance, self.slack = workplace, instance, slack
        self.sensor = build_failed_runs_sensor(build_release_job(workplace.settings))
        self._cursor: str | None = None
        self.log: list[str] = []
        self.tick()  # the first one only takes note of what was before

    def configure(self) -> None:
        path = self.workplace.path
        path.write_text(path.read_text() + "alerts:\n  slack_webhook: ${SLACK_WEBHOOK}\n")

    def breaks(self, reason: str = "", *, bug: str = "", **tags: str) -> dg.DagsterRun:
        config = {"ops": {"refresh_sources": {"config": {"reason": reason, "bug": bug}}}}
        names = {name.replace("__", "/"): value for name, value in tags.items()}
        done = refresh.execute_in_process(
            instance=self.instance, run_config=config, tags=names, raise_on_error=False
        )
        return done.dagster_run

    def tick(self) -> None:
        resources = {"project": self.workplace.resource}
        with dg.build_sensor_context(
            instance=self.instance, cursor=self._cursor, resources=resources, sensor_name="failed_runs"
        ) as context:
            result = self.sensor.evaluate_tick(context)
        self._cursor = result.cursor
        for reaction in result.dagster_run_reactions or ():
            assert reaction.error is None

    def tags(self, run: dg.DagsterRun) -> set[str]:
        found = self.instance.get_run_by_id(run.run_id)
        assert found is not None
        return {ALERT_TAG, GROUPED_TAG} & set(found.tags)


@pytest.fixture
def slack() -> Iterator[SlackWebhook]:
    with SlackWebhook() as server:
        yield server


@pytest.fixture
def operator(
    workplace: Workplace,
    instance: dg.DagsterInstance,
    slack: SlackWebhook,
    monkeypatch: pytest.MonkeyPatch,
) -> Operator:
    monkeypatch.setenv("SLACK_WEBHOOK", slack.url)
    monkeypatch.setenv("KNOWLEDGE_DAGSTER_URL", "https://dagster.example.com/")
    operator = Operator(workplace, instance, slack)
    operator.configure()
    return operator


def test_a_failure_is_told_in_full(operator: Operator) -> None:
    run = operator.breaks(
        "1 of 2 sources failed, the others are done: shop: the folder /srv/shop does not exist",
        knowledge__trigger="commit",
        source__shop="yes",
        source__docs="yes",
    )
    operator.tick()
    assert operator.slack.texts == [
        f"*Knowledge pipeline: the run {run.run_id[:8]} of refresh failed*\n"
        "1 of 2 sources failed, the others are done: shop: the folder /srv/shop does not exist\n"
        "Sources: docs, shop\n"
        "Trigger: commit\n"
        f"<https://dagster.example.com/runs/{run.run_id}|Open the run>"
    ]
    assert operator.tags(run) == {ALERT_TAG}
    operator.tick()
    assert len(operator.slack.texts) == 1


def test_a_bug_is_told_by_its_message_and_never_its_traceback_or_a_secret(operator: Operator) -> None:
    operator.breaks(bug=f"by zero with {TOKEN}\nsecond line", dagster__partition="shop")
    operator.tick()
    (text,) = operator.slack.texts
    assert "unexpected error in refresh_sources: ZeroDivisionError: by zero with [REDACTED:" in text
    assert "Sources: shop\nTrigger: manual" in text
    assert TOKEN not in text and "Traceback" not in text and "second line" not in text


@pytest.mark.storage
def test_one_cause_is_told_once_and_another_one_at_once(operator: Operator) -> None:
    first = operator.breaks("the folder /a does not exist after 3.2 s")
    second = operator.breaks("the folder /a does not exist after 4.7 s")
    operator.breaks("the mirror of shop is gone")
    operator.tick()
    assert len(operator.slack.texts) == 2
    assert (operator.tags(first), operator.tags(second)) == ({ALERT_TAG}, {GROUPED_TAG})


@pytest.mark.storage
def test_after_a_while_it_is_told_again_with_how_often_it_came(operator: Operator) -> None:
    for _ in range(3):
        operator.breaks("the folder /a does not exist")
    operator.tick()
    operator.sensor = build_failed_runs_sensor(build_release_job(operator.workplace.settings), quiet_s=0.0)
    operator.breaks("the folder /a does not exist")
    operator.tick()
    told, again = operator.slack.texts
    assert "since the last alert" not in told
    assert "It failed for this reason 2 more times since the last alert." in again


@pytest.mark.storage
def test_what_dagster_tries_again_is_not_told(operator: Operator) -> None:
    run = operator.breaks("the run's process died", dagster__will_retry="true")
    operator.tick()
    assert operator.slack.texts == []
    assert operator.tags(run) == set()


@pytest.mark.storage
def test_a_run_whose_process_died_is_told(operator: Operator) -> None:
    run = operator.instance.create_run_for_job(refresh)
    operator.instance.report_run_failed(run, "the run worker was lost")
    operator.tick()
    assert "the run worker was lost" in operator.slack.texts[0]


def test_a_channel_that_fails_does_not_hide_the_other(
    operator: Operator, capsys: pytest.CaptureFixture[str]
) -> None:
    path = operator.workplace.path
    with MailServer() as server:
        path.write_text(path.read_text() + f"  email: {{to: [ops@example.com], port: {server.port}}}\n")
        operator.slack.answer_next(Answer(404, "no_service"))
        run = operator.breaks("the folder /a does not exist")
        operator.tick()
        assert "the folder /a does not exist" in server.messages[0].get_content()
    assert operator.tags(run) == {ALERT_TAG}
    logged = capsys.readouterr().err
    assert "the alert was not sent by Slack: Slack answered 404 'no_service': make a new webhook" in logged
    assert operator.slack.secret not in logged
    operator.breaks("the disk is full")
    operator.tick()
    assert "the disk is full" in operator.slack.texts[0]
    assert "the alert was not sent by e-mail" in capsys.readouterr().err


def test_where_no_channel_worked_the_next_failure_is_told(operator: Operator) -> None:
    operator.slack.answer_next(Answer(403, "action_prohibited"))
    run = operator.breaks("the folder /a does not exist")
    operator.tick()
    assert operator.tags(run) == set()
    operator.breaks("the folder /a does not exist")
    operator.tick()
    assert len(operator.slack.texts) == 1


@pytest.mark.slow
def test_a_wrong_knowledge_yaml_still_leaves_the_log(
    operator: Operator, capsys: pytest.CaptureFixture[str]
) -> None:
    operator.workplace.path.write_text("sources: nonsense\n")
    operator.breaks("the folder /a does not exist")
    operator.tick()
    logged = capsys.readouterr().err
    assert "the folder /a does not exist" in logged
    assert "the alert is only in this log: knowledge.yaml:1:" in logged


@pytest.mark.parametrize(
    "example", re.findall(r"^```yaml\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
)
def test_every_example_of_the_page_is_valid(
    example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLACK_WEBHOOK", "https://hooks.example.com/services/x")
    monkeypatch.setenv("MAIL_PASSWORD", "-".join(("not", "a", "password")))
    path = tmp_path / "knowledge.yaml"
    path.write_text(f"version: 1\n{example}")
    alerts = load_settings(path).alerts
    assert alerts.slack_webhook or alerts.email


@dg.asset(key=["marts", "orders"])
def orders(context: dg.AssetExecutionContext) -> None:
    """Somebody's own, with a key that a SQL model could have."""
    raise dg.Failure("the warehouse is closed", allow_retries=False)


@pytest.mark.storage
def test_without_a_prefix_only_what_failed_of_its_own_is_told(operator: Operator) -> None:
    folder = operator.workplace.declare("shop", a_py="def find():\n    return 1\n")
    operator.configure()
    own = dg.AssetSelection.assets(dg.AssetKey(["code", "snapshot"])).without_checks()
    others = dg.AssetSelection.assets(orders.key)
    jobs = [dg.define_asset_job("ordering", others), dg.define_asset_job("of_both", others | own)]
    strange = dg.Definitions(assets=[orders], jobs=jobs, executor=dg.in_process_executor)
    defs = dg.Definitions.merge(build_defs(operator.workplace.path), strange)
    operator.sensor = defs.resolve_sensor_def("failed_runs")

    def materialize(name: str, source: str | None = None) -> None:
        job, instance = defs.resolve_job_def(name), operator.instance
        done = job.execute_in_process(instance=instance, partition_key=source, raise_on_error=False)
        assert not done.success

    materialize("ordering")
    materialize("of_both", "shop")  # of which the other's failed
    operator.tick()
    assert operator.slack.texts == []
    folder.rename(folder.with_name("gone"))
    materialize("of_both", "shop")
    operator.tick()
    (text,) = operator.slack.texts
    assert "shop" in text and "warehouse" not in text

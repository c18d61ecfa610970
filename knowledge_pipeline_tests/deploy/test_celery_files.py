"""The files of deploy/celery/ fit those of deploy/postgres/, and the project."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from typing import Any

import pytest
import yaml

from knowledge_pipeline.defs.runs import BROKER_VARIABLE, CELERY_SETTINGS, SOURCE_STEP_TAGS
from knowledge_pipeline_tests.fakes.storage import ROOT

CELERY = ROOT / "deploy" / "celery"
UNIT = CELERY / "knowledge-worker@.service"


@pytest.fixture
def services() -> dict[str, Any]:
    return yaml.safe_load((CELERY / "compose.yaml").read_text())["services"]


@pytest.fixture
def beside() -> dict[str, Any]:
    """The file that is read before."""
    return yaml.safe_load((ROOT / "deploy" / "postgres" / "compose.yaml").read_text())["services"]


def test_the_compose_file_fits_the_specification() -> None:
    checker = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
    checked = subprocess.run([*checker, CELERY / "compose.yaml"], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout


def test_code_server_and_workers_are_told_the_same_broker_and_executor(services: dict[str, Any]) -> None:
    shared = services["code"]["environment"]
    assert shared["KNOWLEDGE_EXECUTOR"] == "celery"
    assert shared.items() <= services["worker"]["environment"].items()
    user = services["broker"]["environment"]["RABBITMQ_DEFAULT_USER"]
    assert shared[BROKER_VARIABLE].startswith(f"pyamqp://{user}:${{KNOWLEDGE_BROKER_PASSWORD:?")


def test_a_worker_has_what_the_code_server_has(services: dict[str, Any], beside: dict[str, Any]) -> None:
    worker, code = services["worker"], beside["code"]
    about_the_server = {"KNOWLEDGE_CODE_HOST", "KNOWLEDGE_CODE_PORT"}
    wanted = {name: value for name, value in code["environment"].items() if name not in about_the_server}
    assert wanted.items() <= worker["environment"].items()
    assert (worker["image"], worker["volumes"], worker["env_file"]) == (
        code["image"],
        code["volumes"],
        code["env_file"],
    )


def test_workers_listen_to_every_queue_that_steps_are_put_into(services: dict[str, Any]) -> None:
    used = {SOURCE_STEP_TAGS["dagster-celery/queue"], CELERY_SETTINGS["task_default_queue"]}
    unit = re.search(r"^ExecStart=(.+)$", UNIT.read_text(), re.MULTILINE)
    assert unit
    for command in (services["worker"]["command"], shlex.split(unit[1])):
        assert set(command[command.index("--queues") + 1].split(",")) == used
        assert command[command.index("--app") + 1] == "knowledge_pipeline.defs.celery_app"


def test_the_unit_starts_what_compose_starts_by_another_name(services: dict[str, Any]) -> None:
    unit = re.search(r"^ExecStart=(.+)$", UNIT.read_text(), re.MULTILINE)
    assert unit
    program, *rest = shlex.split(unit[1])
    assert [program.rpartition("/")[2], *rest[:-2]] == services["worker"]["command"]
    assert rest[-2:] == ["--hostname", "%i@%H"]

"""The files of deploy/ agree with the project, and with the programs that read them."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from knowledge_pipeline import __version__
from knowledge_pipeline_tests.fakes.storage import POSTGRES_YAML, ROOT, SQLITE_YAML

DEPLOY = ROOT / "deploy"
CHART_HAS_NO_VALUE = {"nux", "storage"}  # nux is only shown to one who starts Dagster by hand


def read(path: Path) -> dict[str, Any]:
    return yaml.safe_load(path.read_text())


@pytest.fixture
def compose() -> dict[str, Any]:
    return read(DEPLOY / "postgres" / "compose.yaml")


@pytest.fixture
def values() -> dict[str, Any]:
    return read(DEPLOY / "kubernetes" / "values.yaml")


def snake(value: Any) -> Any:
    """Keys as dagster.yaml spells them."""
    if isinstance(value, list):
        return [snake(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key
        if key == "applyLimitPerUniqueValue"
        else re.sub("[A-Z]", lambda m: f"_{m[0].lower()}", key): snake(item)
        for key, item in value.items()
    }


def read_from_environment(value: Any) -> set[str]:
    """The variables that a file of Dagster reads: `{env: NAME}`."""
    if not isinstance(value, dict):
        return set()
    if set(value) == {"env"}:
        return {value["env"]}
    return set().union(*map(read_from_environment, value.values()))


def test_on_postgresql_everything_but_the_storage_is_as_in_the_project():
    project, postgres = read(SQLITE_YAML), read(POSTGRES_YAML)
    assert project.pop("storage") != postgres.pop("storage")
    assert postgres == project


def test_in_kubernetes_the_limits_are_those_of_the_project(values: dict[str, Any]):
    daemon = values["dagsterDaemon"]
    ours = {
        "concurrency": values["concurrency"],
        "run_monitoring": daemon["runMonitoring"],
        "run_retries": daemon["runRetries"],
        "sensors": daemon["sensors"],
        "schedules": daemon["schedules"],
        "python_logs": values["pythonLogs"],
        "retention": values["retention"],
        "telemetry": values["telemetry"],
        **values["additionalInstanceConfig"],
    }
    project = {key: value for key, value in read(SQLITE_YAML).items() if key not in CHART_HAS_NO_VALUE}
    del project["run_coordinator"]  # a pod takes longer to start than the queue does to look
    found = snake(ours)
    del found["run_monitoring"]["start_timeout_seconds"]  # starting a pod takes longer than a process
    for switched in ("concurrency", "retention"):
        assert found[switched].pop("enabled") is True
    assert found == project


def test_kubernetes_launches_runs_with_a_configuration_that_the_launcher_takes(values: dict[str, Any]):
    from dagster._config import process_config
    from dagster_k8s import K8sRunLauncher

    launcher = values["runLauncher"]
    assert launcher["type"] == K8sRunLauncher.__name__
    given = snake(launcher["config"]["k8sRunLauncher"])
    required = {"instance_config_map": "given-by-the-chart", "service_account_name": "given-by-the-chart"}
    checked = process_config(
        K8sRunLauncher.config_type(), {**given, **required, "dagster_home": "/opt/dagster"}
    )
    assert checked.success, checked.errors


def test_every_pod_runs_the_one_image_as_nobody_in_particular(values: dict[str, Any]):
    (code,) = values["dagster-user-deployments"]["deployments"]
    for pod in (code, values["dagsterDaemon"], values["dagsterWebserver"]):
        assert pod["image"] == code["image"]
        assert pod["securityContext"]["runAsNonRoot"] is True
    assert f"USER {code['securityContext']['runAsUser']}\n" in (DEPLOY / "Dockerfile").read_text()
    assert code["image"]["tag"] == __version__


def test_secrets_are_named_and_never_held(values: dict[str, Any], compose: dict[str, Any]):
    named = values["dagster-user-deployments"]["deployments"][0]["envSecrets"]
    assert named == [{"name": "knowledge-secrets"}]
    assert "postgresqlPassword" not in values["postgresql"]
    for service in compose["services"].values():
        for name, value in service["environment"].items():
            assert "PASSWORD" not in name or value.startswith("${DAGSTER_POSTGRES_PASSWORD:?")


def test_the_compose_file_fits_the_specification():
    checker = Path(sys.executable).parent / "check-jsonschema"
    command = [checker, "--builtin-schema", "vendor.compose-spec", DEPLOY / "postgres" / "compose.yaml"]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout


def test_every_service_has_what_its_files_read_from_the_environment(compose: dict[str, Any]):
    names = read_from_environment(read(POSTGRES_YAML))
    names |= {"KNOWLEDGE_CODE_HOST", "KNOWLEDGE_CODE_PORT"}
    (server,) = read(DEPLOY / "postgres" / "workspace.yaml")["load_from"]
    assert read_from_environment(server["grpc_server"]) == {"KNOWLEDGE_CODE_HOST", "KNOWLEDGE_CODE_PORT"}
    for service in ("code", "webserver", "daemon"):
        assert names <= set(compose["services"][service]["environment"])


def test_the_image_is_built_from_what_is_there_and_serves_what_compose_serves(compose: dict[str, Any]):
    lines = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ").splitlines()
    for line in lines:
        if line.startswith("COPY "):
            assert all((ROOT / name).exists() for name in line.split()[1:-1])
    (command,) = [yaml.safe_load(line.removeprefix("CMD ")) for line in lines if line.startswith("CMD ")]
    assert command == compose["services"]["code"]["command"]
    (extras,) = re.findall(r"^ARG EXTRAS=([a-z,]+)$", "\n".join(lines), re.MULTILINE)
    assert any('-e ".[${EXTRAS}]"' in line for line in lines)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(extras.split(",")) <= set(project["optional-dependencies"])

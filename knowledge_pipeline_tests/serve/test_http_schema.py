"""Schemathesis asks every route of the OpenAPI document, sensibly and not: all answers are as it says."""

from __future__ import annotations

import re
import shutil
import sys

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode, checks

from knowledge_pipeline.serve.refreshes import RefreshQueue
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.progress import PublishedHeartbeat, create_heartbeat
from knowledge_pipeline_tests.serve.running import Running

# `positive_data_acceptance` is left out: no schema can say which templates, sources and dates there are.
CHECKS = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
    checks.negative_data_rejection,
    checks.unsupported_method,
    checks.allow_header_conformance,
]
OPEN = ("/health", "/ready", "/webhooks", "/metrics", "/api/v1/knowledge/tools")

ONE_VALUE = re.compile(
    r"`type` at /properties/\w+ \(was array, became (number|integer|string|boolean|null)\)"
)

WAIT_S = 600.0  # a busy machine takes more than the ten seconds of schemathesis


@pytest.fixture(scope="module")
def strict(world, tmp_path_factory):
    """Asks everybody for a token; its knowledge.yaml is its own, and its refreshes do nothing."""
    config = tmp_path_factory.mktemp("schema") / "knowledge.yaml"
    shutil.copy(world.config, config)
    refreshes = RefreshQueue(config, config.parent, cli_command=(sys.executable, "-S", "-c", "pass"))
    watcher = PublishedHeartbeat(
        Lake(world.settings.store).folder, create_heartbeat()
    )  # else its health is 503
    with Running(world.settings, config=config, refreshes=refreshes, anonymous="off") as running:
        yield running
    watcher.remove()


@pytest.fixture(scope="module")
def described(strict):
    patient = {"generation": {"allow-extra-parameters": False}, "request-timeout": WAIT_S}
    config = schemathesis.Config.from_dict(patient)
    return schemathesis.openapi.from_url(f"{strict.url}/openapi.json", config=config, timeout=WAIT_S)


def wrong_answers(described, ask, *, examples, modes=tuple(GenerationMode)):
    """By route, what was not as described."""
    few = settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    wrong = {}
    for found in described.get_all_operations():
        operation = found.ok()
        for mode in modes:
            try:
                few(given(operation.as_strategy(generation_mode=mode))(ask))()
            except Unsatisfiable:  # whatever is sent there makes sense
                pass
            except (Exception, BaseExceptionGroup) as error:  # noqa: BLE001 - all routes are told
                if told := [each for each in _shown(error) if not _is_a_list_of_one(each)]:
                    wrong[f"{mode.value} {operation.label}"] = told
    return wrong


def _shown(error):
    return [str(each) for each in getattr(error, "exceptions", [error])]


def _is_a_list_of_one(told):
    """Whether all that was wrong is a single value for a list, which a query string cannot tell apart."""
    violations = [line for line in told.splitlines() if "query: violates" in line]
    return bool(violations) and all(map(ONE_VALUE.search, violations))


def by(token):
    sent = {"Authorization": f"Bearer {token}"}
    return lambda case: case.call_and_validate(headers=sent, checks=CHECKS) and None


def test_nobody_is_answered_without_a_token(described):
    def ask(case):
        answer = case.call_and_validate(checks=CHECKS[:5])
        assert case.path.startswith(OPEN) or answer.status_code in (401, 404, 405, 422), answer.text

    assert wrong_answers(described, ask, examples=1) == {}


@pytest.mark.slow
@pytest.mark.parametrize("seer", ["operator", "ann"])
def test_every_answer_is_as_described_however_long_one_asks(described, world, seer):
    assert wrong_answers(described, by(world.tokens[seer]), examples=4) == {}

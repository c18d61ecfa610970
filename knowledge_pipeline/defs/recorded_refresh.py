"""The program behind `knowledge refresh --dagster`: one JSON request in, one JSON response out.

It refreshes sources as one recorded run inside its process, launches nothing and needs no daemon; `dagster
dev` shows the run. The command line does not import Dagster, so it runs this module. Only the response goes
to stdout; whatever else is printed goes to stderr.
"""

import json
import os
import shutil
import sys
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg

from knowledge_pipeline.defs.checks import FAILURES
from knowledge_pipeline.defs.jobs import build_source_jobs
from knowledge_pipeline.defs.resources import ProjectResource
from knowledge_pipeline.defs.runs import build_source_tags, fail_lost_runs
from knowledge_pipeline.defs.settings_assets import group_ids_by_type, source_partitions
from knowledge_pipeline.errors import KnowledgeError
from knowledge_pipeline.stages.context import ORDINARY_REFRESH, RefreshOptions

_PROJECT_FILE = Path(__file__).parents[2] / "dagster.yaml"


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """How the run ended."""

    run_id: str
    failure: str | None = None  # one sentence, where anything failed
    failures: Sequence[Any] = ()  # what `describe_failures` says, where the others are done


def record_refresh(
    config_path: Path, sources: Iterable[str] = (), options: RefreshOptions = ORDINARY_REFRESH
) -> RecordedRun:
    """Refresh chosen sources, or all, and release what changed, on the instance of `DAGSTER_HOME`.

    Without it, the folder `.dagster` next to the `knowledge.yaml` is used. Raises ConfigError and NotFound.
    """
    project = ProjectResource(config_path=str(config_path.absolute()), pools=False)
    settings = project.load_settings()
    ids = [source.id for source in settings.select_sources(sources)]
    with open_local_instance(config_path.absolute().parent / ".dagster") as instance:
        fail_lost_runs(instance)
        for source_type, type_ids in group_ids_by_type(settings).items():
            instance.add_dynamic_partitions(str(source_partitions(source_type).name), type_ids)
        refresh, *_ = build_source_jobs()
        result = refresh.execute_in_process(
            {
                "ops": {"refresh_sources": {"config": {"sources": ids, **options.as_config()}}},
                # A step that fails logs its traceback, which is for the page of the run.
                "loggers": {"console": {"config": {"log_level": "CRITICAL"}}},
            },
            instance,
            resources={"project": project},
            raise_on_error=False,
            tags={"knowledge/trigger": "command", **build_source_tags(ids)},
        )
        if result.success:
            return RecordedRun(result.run_id)
        problem = f"run {result.run_id} failed before its first step"
        failures: Any = ()
        for event in result.get_step_failure_events()[:1]:
            failure, details = event.step_failure_data, event.step_failure_data.user_failure_data
            message = details.description if details else None
            problem = message or (failure.error.message.strip() if failure.error else "failed")
            failures = details.metadata[FAILURES].value if details and FAILURES in details.metadata else ()
        return RecordedRun(result.run_id, problem, failures)


@contextmanager
def open_local_instance(folder: Path) -> Generator[dg.DagsterInstance]:
    """The instance of `DAGSTER_HOME`, or one in `folder`; `dagster dev` shows the same one.

    The one in `folder` gets the project's `dagster.yaml`, as from `make dev`, with telemetry off.
    """
    if "DAGSTER_HOME" not in os.environ:
        folder.mkdir(parents=True, exist_ok=True)
        if _PROJECT_FILE.exists() and not (folder / _PROJECT_FILE.name).exists():
            shutil.copyfile(_PROJECT_FILE, folder / _PROJECT_FILE.name)
    home = Path(os.environ.setdefault("DAGSTER_HOME", str(folder)))  # our dagster.yaml reads it there
    home.mkdir(parents=True, exist_ok=True)
    with dg.DagsterInstance.from_config(str(home)) as instance:
        yield instance


def handle_request(request: dict[str, Any]) -> dict[str, Any]:
    """Carry out a request: `config`, `sources`, and `options` with the fields of `RefreshOptions`.

    Gives `run`, `failure` in a sentence or null, and `failures` by source; or `error` and its `kind`.
    """
    options = RefreshOptions(**request["options"])
    try:
        recorded = record_refresh(Path(request["config"]), request["sources"], options)
    except KnowledgeError as error:
        return {"error": str(error), "kind": type(error).__name__}
    return {"run": recorded.run_id, "failure": recorded.failure, "failures": list(recorded.failures)}


if __name__ == "__main__":
    with os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8") as stdout:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # where others print from now on
        json.dump(handle_request(json.loads(sys.argv[1])), stdout)

"""A `knowledge.yaml` over repositories and folders, and ticks of sensors as the daemon makes them."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dagster as dg
from dagster._core.definitions.sensor_definition import SensorExecutionData
from dagster._core.remote_origin import RegisteredCodeLocationOrigin

from knowledge_pipeline.config.file import load_settings
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.defs.resources import ProjectResource


class Watch:
    """A project whose file a test writes as a user would, and sensors with their cursors."""

    def __init__(self, root: Path, *sensors: dg.SensorDefinition) -> None:
        root.mkdir(parents=True, exist_ok=True)
        self.root = root
        self.path = root / "knowledge.yaml"
        self.sources: dict[str, dict[str, Any]] = {}
        self.organisations: list[dict[str, Any]] = []
        self.keep_removed_days = 0.0
        self.location = "one"
        self.sensors = sensors
        self.cursors: dict[str, str | None] = {}

    def declare(self, id_: str, type_: str = "code", *, over: Path | str = ".", **rest: Any) -> None:
        """Add a source over a git address, for a text, or a folder, for a path; `branch` may be given."""
        connection = (
            {"type": "git", "url": over} if isinstance(over, str) else {"type": "local", "path": str(over)}
        )
        connection |= {key: rest.pop(key) for key in ("branch", "token") if key in rest}
        self.sources[id_] = {"id": id_, "type": type_, "connection": connection, **rest}

    def write(self) -> None:
        """Save the file. JSON is YAML."""
        file = {"version": 1, "store": "store", "sources": list(self.sources.values())}
        file |= {"organisations": self.organisations} if self.organisations else {}
        file |= {"releases": {"keep_removed_days": self.keep_removed_days}}
        self.path.write_text(json.dumps(file, indent=1))

    @property
    def resource(self) -> ProjectResource:
        return ProjectResource(config_path=str(self.path))

    @property
    def settings(self) -> Settings:
        self.write()
        return load_settings(self.path)

    @property
    def cursor(self) -> str | None:
        """That of the first sensor."""
        return self.cursors.get(self.sensors[0].name)

    @cursor.setter
    def cursor(self, text: str) -> None:
        self.cursors[self.sensors[0].name] = text

    def known(self, instance: dg.DagsterInstance) -> None:
        """Give every source its partition, as `sources_in_config` does when it asks for the first refresh."""
        for source in self.settings.sources:
            instance.add_dynamic_partitions(f"{source.type}_sources", [source.id])

    def tick(
        self, instance: dg.DagsterInstance, *, save: bool = True, die: bool = False, at: int = 0
    ) -> SensorExecutionData:
        """Write the file, evaluate one sensor, and apply what is asked for, in the daemon's order.

        With `die` the daemon ends after the partitions, before it keeps runs and cursor.
        """
        if save:
            self.write()
        sensor = self.sensors[at]
        with dg.build_sensor_context(
            instance=instance, cursor=self.cursors.get(sensor.name), resources={"project": self.resource}
        ) as context:
            context._code_location_origin = RegisteredCodeLocationOrigin(self.location)
            result = sensor.evaluate_tick(context)
        for change in result.dynamic_partitions_requests or ():
            for key in change.partition_keys:
                instance.has_dynamic_partition(change.partitions_def_name, key)  # as the daemon asks
            if isinstance(change, dg.AddDynamicPartitionsRequest):
                instance.add_dynamic_partitions(change.partitions_def_name, change.partition_keys)
            else:
                for key in change.partition_keys:
                    instance.delete_dynamic_partition(change.partitions_def_name, key)
        if not die:
            self.cursors[sensor.name] = result.cursor
        return result

    def runs(self, instance: dg.DagsterInstance, **how: Any) -> list[list[str]]:
        """The sources of each run that a tick requests."""
        return [sources_of_run(request) for request in self.tick(instance, **how).run_requests or ()]


def sources_of_run(request: dg.RunRequest) -> list[str]:
    """The sources that a run is requested for."""
    (op,) = request.run_config["ops"].values()
    return op["config"]["sources"]


def how_of_run(request: dg.RunRequest) -> dict[str, Any]:
    """How they are refreshed."""
    (op,) = request.run_config["ops"].values()
    return {key: value for key, value in op["config"].items() if key != "sources"}


def ids(found: Sequence[list[str]]) -> list[str]:
    """The sources of all runs."""
    return sorted(id_ for run in found for id_ in run)

"""What every worker of a server is started with, and how the limits of one server are shared by them."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from os import cpu_count
from pathlib import Path

from knowledge_pipeline.config.operation import ServeSettings
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.store.organisations.listings import load_shared_settings
from knowledge_pipeline.store.shared_state import SERVERS_FOLDER

METRICS_FOLDER = "metrics"  # in the folder of what workers share


@dataclass(frozen=True, slots=True)
class Launch:
    """How to start a worker: it reads the configuration itself, so that a new one has the newest."""

    config: Path
    overrides: Mapping[str, str | int]  # of the section `serve`, given on the command line
    workers: int
    state_folder: Path  # of what they share
    start_token: str | None  # the secret of the link that was printed when the server started

    def load_settings(self) -> Settings:
        """The settings of one worker, of as many. Raises `ConfigError`."""
        settings = load_shared_settings(self.config)
        serve = settings.serve.model_copy(update=dict(self.overrides))
        return settings.model_copy(update={"serve": divide_limits(serve, self.workers)})


def divide_limits(serve: ServeSettings, workers: int) -> ServeSettings:
    """The share that one of several workers has of what the whole server may hold at once, rounded up."""
    most = serve.max_concurrent_per_caller or max(2, (cpu_count() or 1) // 2)
    totals = {
        "max_connections": serve.max_connections,
        "max_concurrent": serve.max_concurrent,
        "max_concurrent_per_caller": most,
        "max_total_body_bytes": serve.max_total_body_bytes,
    }
    return serve.model_copy(update={name: ceil(total / workers) for name, total in totals.items()})


def prepare_state_folder(folder: Path, port: int) -> Path:
    """An empty folder for the server that holds a port: what is there is of one that has ended."""
    state_folder = folder / SERVERS_FOLDER / str(port)
    shutil.rmtree(state_folder, ignore_errors=True)
    (state_folder / METRICS_FOLDER).mkdir(parents=True, mode=0o700)
    return state_folder

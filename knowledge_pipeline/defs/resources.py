"""The resource that assets open: the settings of `knowledge.yaml` and the tables that it names."""

from functools import lru_cache
from pathlib import Path

import dagster as dg
from pydantic import Field

from knowledge_pipeline.config import file
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.store.lake import Lake


class ProjectResource(dg.ConfigurableResource):  # pyright: ignore[reportMissingTypeArgument]  # it has no value but itself
    """One `knowledge.yaml` and its store. An edited file is read again, without a reload."""

    config_path: str = Field(
        default="",
        description="Path of knowledge.yaml; if empty, KNOWLEDGE_CONFIG, or the nearest file upwards.",
    )
    max_retries: int = Field(default=3, ge=0, description="Retries of a transient failure.")
    retry_delay_s: float = Field(
        default=15.0, ge=0, description="Seconds before the first retry; each further one doubles them."
    )
    pools: bool = Field(
        default=True,
        description="Whether a step claims slots in Dagster's pools; off where no monitor frees them.",
    )

    @property
    def path(self) -> Path:
        """The file in use.

        Raises:
            ConfigError: there is none.
        """
        return Path(self.config_path) if self.config_path else file.find_config(Path.cwd())

    def load_settings(self) -> Settings:
        """The settings of the file now. It is read again only after a change: 2,000 sources take a second.

        Raises:
            ConfigError: it is missing or wrong.
        """
        path = self.path
        try:
            status = path.stat()
        except OSError:
            return file.load_settings(path)  # raises the error that says why
        return _load_cached(path, (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino))

    def open_lake(self) -> Lake:
        """The store; opens no table."""
        return Lake(self.load_settings().store)

    def retry_policy(self) -> dg.RetryPolicy:
        """How often to retry a transient failure, and after how long."""
        backoff, jitter, delay = dg.Backoff.EXPONENTIAL, dg.Jitter.PLUS_MINUS, self.retry_delay_s
        return dg.RetryPolicy(max_retries=self.max_retries, delay=delay, backoff=backoff, jitter=jitter)


@lru_cache(maxsize=2)
def _load_cached(path: Path, stamp: tuple[int, int, int, int]) -> Settings:
    del stamp  # part of the key only
    return file.load_settings(path)

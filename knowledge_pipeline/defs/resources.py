"""What assets open: the settings of `knowledge.yaml` and the tables it names."""

from pathlib import Path

import dagster as dg
from pydantic import Field

from knowledge_pipeline import config_file
from knowledge_pipeline.config import Settings
from knowledge_pipeline.stages import pipeline
from knowledge_pipeline.stages.base import Pass, Report
from knowledge_pipeline.store.lake import Lake


class ProjectResource(dg.ConfigurableResource):
    """One `knowledge.yaml` and its store, read anew by every run, so that an edit needs no reload."""

    config_path: str = Field(
        default="",
        description="Path of knowledge.yaml; empty: KNOWLEDGE_CONFIG, else the nearest one upwards.",
    )
    max_retries: int = Field(default=3, ge=0, description="Tries after a failure that a retry may help.")
    retry_delay_s: float = Field(
        default=15.0, ge=0, description="Seconds before the first retry; doubled for each one after."
    )

    @property
    def path(self) -> Path:
        """The file in use.

        Raises:
            ConfigError: there is none.
        """
        return Path(self.config_path) if self.config_path else config_file.find(Path.cwd())

    def settings(self) -> Settings:
        """Read and validate the file.

        Raises:
            ConfigError: it is missing or wrong.
        """
        return config_file.load(self.path)

    def lake(self) -> Lake:
        """The tables; opening none."""
        return Lake(self.settings().store)

    def work(self, source: str, *, full: bool, reembed: bool, allow_empty: bool, report: Report) -> Pass:
        """One source on its way through the stages.

        Raises:
            ConfigError: the file is missing or wrong.
            NotFound: the source is not, or no longer, configured.
        """
        settings = self.settings()
        (found,) = pipeline.chosen(settings, [source])
        return Pass(Lake(settings.store), settings, found, full, reembed, allow_empty, report)

    def patience(self) -> dg.RetryPolicy:
        """How often and how long to wait for what may come back."""
        return dg.RetryPolicy(
            max_retries=self.max_retries,
            delay=self.retry_delay_s,
            backoff=dg.Backoff.EXPONENTIAL,
            jitter=dg.Jitter.PLUS_MINUS,
        )

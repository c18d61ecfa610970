"""The section `limits`: the most that one question may ask for, by whatever interface it comes."""

from __future__ import annotations

from pydantic import Field

from knowledge_pipeline.config.model import SettingsModel


class LimitSettings(SettingsModel):
    """What one question may cost. `query.limits` refuses what asks for more.

    The smallest values are what interfaces ask for by default, so that no setting refuses those.
    """

    query_chars: int = Field(default=4_000, ge=100)  # of a question
    example_chars: int = Field(default=20_000, ge=100)  # of a text to be similar to, or a snippet
    task_chars: int = Field(default=200_000, ge=100)
    task_files: int = Field(default=20, ge=1)  # that context is built for
    name_chars: int = Field(default=1_000, ge=100)  # of a filter's value, a path, a target of the code graph
    id_chars: int = Field(default=4_000, ge=500)
    filter_values: int = Field(default=200, ge=10)  # of all filters of a question, those in its text included
    filter_patterns: int = Field(default=20, ge=5)  # of them, those that are compared with each row
    filter_chars: int = Field(default=5_000, ge=200)  # of all of them together
    results: int = Field(default=100, ge=20)
    context_tokens: int = Field(default=1_000_000, ge=1_000)
    graph_nodes: int = Field(default=1_000, ge=100)  # in addition to the target
    graph_depth: int = Field(default=10, ge=5)  # steps from the target

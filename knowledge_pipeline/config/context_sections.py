"""Sections of a context: what is searched for besides the searches of the task's kind."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from knowledge_pipeline.config.model import SettingsModel
from knowledge_pipeline.contract.filters import Filters, SectionType


class SectionSettings(SettingsModel):
    """One section, with a search and a share of the budget of its own."""

    name: str = Field(pattern=r"^\w[\w-]*$", max_length=50)
    heading: str | None = Field(default=None, min_length=1)  # None: the name
    type: SectionType = "semantic"
    query: str | None = Field(default=None, min_length=1)  # a template; None: as suits the type
    filters: Filters = Filters()  # in addition to the task's
    limit: int = Field(default=10, ge=1, le=50)  # results
    share: float = Field(gt=0, le=1)  # of the budget of all excerpts

    @model_validator(mode="after")
    def _require_no_query_of_types(self) -> Self:
        if self.type == "type_definitions" and (self.query or self.filters != Filters()):
            raise ValueError("type_definitions follows the code graph: it takes neither query nor filters")
        return self


SectionsByTemplate = dict[str, tuple[SectionSettings, ...]]


def require_valid_sections(sections: SectionsByTemplate) -> None:
    """Raise ValueError where a template's shares exceed 1, or a name occurs twice."""
    for template, several in sections.items():
        if (shares := sum(section.share for section in several)) > 1 + 1e-9:
            raise ValueError(
                f"the shares of context.sections.{template} sum to {shares:g}; allowed: at most 1"
            )
        names = [section.name for section in several]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(f"context.sections.{template} has two sections {twice!r}: rename one")

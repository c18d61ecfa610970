"""Who may find the content of a source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field, model_validator

from knowledge_pipeline.config.model import SettingsModel


class AccessSettings(SettingsModel):
    """Who may find the source's content.

    With `from_source` each document has the readers that the source's own permissions give it; `principals`
    then see every document, also those whose permissions cannot be read. `mapping` leads from accounts and
    groups of the source to principals; what it does not name is the account's e-mail, if that is trusted.
    """

    visibility: Literal["public", "tenant", "private", "from_source"] = "public"
    tenant: str | None = None
    principals: tuple[str, ...] = ()
    mapping: Mapping[str, str] = Field(default_factory=dict[str, str])
    trust_emails: bool = True

    @model_validator(mode="after")
    def _require_audience(self) -> AccessSettings:
        if self.visibility != "public" and not self.tenant:
            raise ValueError(f"visibility {self.visibility!r} needs a tenant")
        if self.visibility == "private" and not self.principals:
            raise ValueError("visibility 'private' needs at least one entry in principals")
        if self.visibility != "from_source" and (self.mapping or not self.trust_emails):
            raise ValueError("mapping and trust_emails belong to visibility 'from_source'")
        if wrong := [name for name in (*self.mapping, *self.mapping.values()) if not name.strip()]:
            raise ValueError(f"mapping leads from an account to a principal: neither can be {wrong[0]!r}")
        return self

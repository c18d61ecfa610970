"""What a caller may see.

Every function that reads content takes an `Access`; the filter that `build_visibility_filter` makes of it is
part of the condition that the store evaluates.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from knowledge_pipeline.contract.usage_labels import UsageLabels, merge_labels
from knowledge_pipeline.llm.model_calls import UsageAccount, get_current_account
from knowledge_pipeline.store import filters
from knowledge_pipeline.store.audiences import AUDIENCE_PREFIX
from knowledge_pipeline.store.filters import Filter


@dataclass(frozen=True, slots=True)
class Caller:
    """The interface and the token of a query, as the log has them."""

    interface: str = "python"  # "cli", "http", "mcp", "page"
    token: str | None = None  # its id; None: no token
    is_logged: bool = True  # False: this is a part of an answer that is logged as a whole
    labels: UsageLabels = field(default_factory=UsageLabels)  # for the logs and the budgets alone


@dataclass(frozen=True, slots=True)
class Access:
    """A caller's tenant and principals; a row's own `visibility` decides whether they see it.

    Equal ones see the same rows, whoever calls.

    Raises:
        ValueError: a name is empty, names an audience of a source, or has a character that the store would
            drop, so that it could pass for another name.
    """

    tenant: str | None
    principals: frozenset[str]
    everything: bool = False
    withheld_sources: frozenset[str] = frozenset()  # whatever their rows say; see `DeclaredSources.narrow`
    audiences: frozenset[str] = frozenset()  # of sources, that the caller belongs to; see `Audiences.add`
    audience_sources: frozenset[str] = frozenset()  # seen by audience alone, whatever else their rows say
    withheld_documents: frozenset[tuple[str, str]] = frozenset()  # of those: source and uri
    caller: Caller = field(default=Caller(), compare=False)

    def __post_init__(self) -> None:
        for name in (*self.principals, *([] if self.tenant is None else [self.tenant])):
            storable = name.encode(errors="ignore").decode()  # without halves of surrogate pairs
            if not name or "\x00" in name or name != storable or name.startswith(AUDIENCE_PREFIX):
                raise ValueError(f"{name!r} cannot name a tenant or a principal")

    @classmethod
    def operator(cls, interface: str = "python") -> Access:
        """Sees every row, as anybody can who reads the store's files."""
        return cls(tenant=None, principals=frozenset(), everything=True, caller=Caller(interface))

    @property
    def unlogged(self) -> Access:
        """The same, for a part of an answer: a request has one row in the log."""
        return replace(self, caller=replace(self.caller, is_logged=False))

    @classmethod
    def public(cls) -> Access:
        """Sees public rows only."""
        return cls(tenant=None, principals=frozenset())

    def with_labels(self, labels: UsageLabels) -> Access:
        """The same, with these labels before those that the caller has; nobody sees more by labels."""
        if labels == _NO_LABELS:
            return self
        merged = merge_labels(labels, self.caller.labels)
        return replace(self, caller=replace(self.caller, labels=merged))

    def with_current_labels(self) -> Access:
        """The same, with the labels of `on_behalf_of` around the call, where the caller has none."""
        account = self.account
        return self.with_labels(UsageLabels(account.session, account.project, account.on_behalf_of))

    @property
    def account(self) -> UsageAccount:
        """On whose account calls of a language model for this caller go; see `on_behalf_of`."""
        labels, current = self.caller.labels, get_current_account()
        return UsageAccount(
            labels.session or current.session,
            labels.project or current.project,
            labels.on_behalf_of or current.on_behalf_of,
            self.tenant,
        )


_NO_LABELS = UsageLabels()


def build_visibility_filter(access: Access) -> Filter:
    """Public rows, rows of the caller's tenant, and private rows of one of theirs; none withheld."""
    if access.everything:
        return filters.MATCH_ALL
    visible = filters.eq("visibility", "public")
    if access.tenant is not None:
        visible |= filters.eq("visibility", "tenant") & filters.eq("tenant", access.tenant)
    principals = sorted(access.principals | access.audiences)
    if access.tenant is not None and principals:
        private = filters.eq("visibility", "private") & filters.eq("tenant", access.tenant)
        visible |= private & filters.has_any("principals", principals)
    if access.withheld_sources:
        visible &= ~filters.one_of("source", sorted(access.withheld_sources))
    if access.audience_sources:
        visible &= _build_audience_filter(access)
    return visible


def _build_audience_filter(access: Access) -> Filter:
    """Of sources that are seen by audience alone, what is of one of the caller's, and not withheld."""
    seen = filters.has_any("principals", sorted(access.audiences))
    for source in sorted({source for source, _ in access.withheld_documents}):
        uris = sorted(uri for of, uri in access.withheld_documents if of == source)
        seen &= ~(filters.eq("source", source) & filters.one_of("uri", uris))
    return ~filters.one_of("source", sorted(access.audience_sources)) | seen

"""How a project is operated: schedules, checks, alerts, evaluation, logs, and the server."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, model_validator

from knowledge_pipeline.config.model import SettingsModel
from knowledge_pipeline.contract.filters import EventType, SectionFilters, SectionFormat, SectionType

Provider = Literal["generic", "keycloak", "entra", "auth0"]

_CLAIMS: dict[Provider, dict[str, str | None]] = {
    "generic": {"user": "sub", "groups": "groups", "tenant": None},
    "keycloak": {"user": "sub", "groups": "groups", "tenant": None},
    "entra": {"user": "oid", "groups": "groups", "tenant": "tid"},  # its `sub` differs from client to client
    "auth0": {"user": "sub", "groups": "groups", "tenant": "org_id"},
}


class ClaimSettings(SettingsModel):
    """Names of the claims that say who somebody is; a dotted name leads into objects."""

    user: str | None = Field(default=None, min_length=1)
    groups: str | None = Field(default=None, min_length=1)
    tenant: str | None = Field(default=None, min_length=1)
    email: str = Field(default="email", min_length=1)


class TenantMapping(SettingsModel):
    """The tenant that a value of the tenant claim stands for."""

    value: str = Field(min_length=1)
    tenant: str = Field(min_length=1)


class GroupMapping(SettingsModel):
    """What the members of one group are and may do."""

    group: str = Field(min_length=1)
    principals: tuple[str, ...] = ()
    tenant: str | None = Field(default=None, min_length=1)
    everything: bool = False  # sees all tenants and all private documents
    scopes: tuple[Literal["query", "admin", "metrics", "events", "report", "push"], ...] = ("query",)


class OidcSettings(SettingsModel):
    """The identity server whose tokens are accepted, besides those of `knowledge token create`."""

    issuer: str  # exactly as the identity server writes it
    client_id: str = Field(min_length=1)
    client_secret: SecretStr | None = None  # None: a public client, which PKCE alone protects
    public_url: str  # by which clients reach this server
    audience: str | None = Field(default=None, min_length=1)  # of access tokens; None: client_id
    scopes: tuple[str, ...] = ("openid", "profile", "email")  # that the page asks for
    required_scopes: tuple[str, ...] = ()  # that an access token needs
    allowed_clients: tuple[str, ...] = ()  # whose access tokens are accepted; empty: all of the audience
    provider: Provider = "generic"  # whose names of claims are the defaults
    claims: ClaimSettings = ClaimSettings.defaults()
    tenant: str | None = Field(default=None, min_length=1)  # of everybody
    tenants: tuple[TenantMapping, ...] = ()  # empty: the claim's value is the tenant
    groups: tuple[GroupMapping, ...] = ()
    group_names_are_principals: bool = True  # of groups that `groups` does not have
    emails_are_verified: bool = False  # of everybody, though tokens do not say so by `email_verified`
    only_listed_groups: bool = False  # whether whoever is in none of `groups` is refused
    leeway_s: int = Field(default=30, ge=0, le=300)  # by which clocks may differ

    @model_validator(mode="after")
    def _require_sound_addresses(self) -> OidcSettings:
        for name, url in (("issuer", self.issuer), ("public_url", self.public_url)):
            if not is_trustworthy_url(url) or "?" in url or "#" in url:
                raise ValueError(
                    f"{name} has to be a URL with https, without a user, query or fragment "
                    "(http is for this machine alone)"
                )
        if urlsplit(self.public_url).path.strip("/"):
            raise ValueError("public_url has no path: the page, the API and MCP are at the server's root")
        if "openid" not in self.scopes:
            raise ValueError("scopes has to contain openid: without it there is no sign-in")
        return self

    @model_validator(mode="after")
    def _require_one_tenant(self) -> OidcSettings:
        if self.tenant and (self.claims.tenant or self.tenants):
            raise ValueError("tenant is that of everybody: leave out claims.tenant and tenants, or tenant")
        if self.tenants and not self.tenant_claim:
            raise ValueError("tenants maps the values of a claim: name it in claims.tenant")
        if self.only_listed_groups and not self.groups:
            raise ValueError("only_listed_groups would refuse everybody: list them in groups")
        has_tenant = bool(self.tenant or self.tenant_claim)
        for group in self.groups:
            if group.everything and (group.tenant or group.principals):
                raise ValueError(
                    f"group {group.group!r} sees everything: it needs no tenant and no principals"
                )
            if not (group.everything or group.tenant or has_tenant) and (
                group.principals or "admin" in group.scopes
            ):
                raise ValueError(
                    f"group {group.group!r} has principals or the scope admin, which are those of a tenant: "
                    "name its tenant, or that of everybody"
                )
        return self

    @property
    def user_claim(self) -> str:
        """The claim that names somebody in the audit log."""
        return self.claims.user or _CLAIMS[self.provider]["user"] or "sub"

    @property
    def groups_claim(self) -> str:
        """The claim with somebody's groups."""
        return self.claims.groups or _CLAIMS[self.provider]["groups"] or "groups"

    @property
    def tenant_claim(self) -> str | None:
        """The claim with somebody's tenant; None: `tenant`, or that of a group, is theirs."""
        return None if self.tenant else self.claims.tenant or _CLAIMS[self.provider]["tenant"]

    @property
    def origin(self) -> str:
        """`public_url` without a slash at its end."""
        return self.public_url.rstrip("/")


def is_trustworthy_url(url: str) -> bool:
    """Whether nobody on the way can read or change what is sent: https, or http to this machine."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return False
    plain = url.isascii() and url.isprintable() and " " not in url and "\\" not in url
    if not (plain and host) or parts.username is not None:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host))


def is_loopback(host: str) -> bool:
    """Whether a host is this machine and can be reached from nowhere else."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


Cron = Annotated[str, Field(pattern=r"^\s*\S+(\s+\S+){4}\s*$")]  # five fields
Ratio = Annotated[float, Field(ge=0, le=1)]


class ScheduleSettings(SettingsModel):
    """When the schedules tick: cron expressions, in one time zone."""

    timezone: str = "UTC"
    organisations: Cron = "50 * * * *"  # before what is refreshed hourly or daily
    hourly: Cron = "5 * * * *"
    daily: Cron = "0 3 * * *"
    weekly: Cron = "0 4 * * 0"  # Sunday
    weekly_reindex: Cron = "0 1 * * 6"  # Saturday
    monthly_reindex: Cron = "0 1 1 * *"
    permissions: Cron = "*/5 * * * *"  # where a source has visibility: from_source
    maintenance: Cron = "30 5 * * *"
    checks: Cron = "0 6 * * *"
    sql_models: Cron = "15 6 * * *"
    tuning: Cron = "0 5 * * 0"  # Sunday; where tuning.trigger is weekly


class ReleaseSettings(SettingsModel):
    """How long what was released is kept."""

    keep: int = Field(default=10, ge=1, le=1000)  # releases that can be rolled back to
    keep_removed_days: float = Field(default=1.0, ge=0, le=3650)  # what sources had that are removed


class CheckSettings(SettingsModel):
    """What the warning-only checks tolerate."""

    duplicate_share: Ratio = 0.3  # chunks whose text another chunk of the type has
    skipped_share: Ratio = 0.1  # documents that could not be read
    outlier_share: Ratio = 0.05  # chunks far larger than the model reads, or far too small
    orphaned_share: Ratio = 0.5  # vectors that no chunk uses any more
    unindexed_share: Ratio = 0.1  # index rows that search finds by scanning
    unembedded_share: Ratio = 0.0  # index rows without a vector yet
    unresolved_share: Ratio = 0.6  # of the uses in a language, those whose target is not known
    verified_documents: int = Field(default=20, ge=0)  # of each source, read again a day
    monthly_budget: float | None = Field(default=None, ge=0)  # of embedding and language models


class EmailAlertSettings(SettingsModel):
    """Where failures are mailed to, and by which server."""

    to: tuple[str, ...] = Field(min_length=1)
    sender: str = "knowledge-pipeline@localhost"
    host: str = "localhost"
    port: int = Field(default=25, ge=1, le=65535)
    user: str | None = None
    password: SecretStr | None = None
    starttls: bool = False


class AlertSettings(SettingsModel):
    """Where failed runs are reported, besides the daemon's log."""

    slack_webhook: SecretStr | None = None
    email: EmailAlertSettings | None = None


class EventWebhook(SettingsModel):
    """An address that a server tells of events."""

    url: Annotated[str, Field(pattern=r"^https?://[^/]")]
    secret: SecretStr  # "whsec_" and the base64 of 24 to 64 bytes, which sign what is sent
    events: tuple[EventType, ...] = ()  # none: all


class EventSettings(SettingsModel):
    """Who is told of what happens in the store."""

    webhooks: tuple[EventWebhook, ...] = ()

    @model_validator(mode="after")
    def _require_different_urls(self) -> EventSettings:
        if len({webhook.url for webhook in self.webhooks}) < len(self.webhooks):
            raise ValueError("two webhooks have the same url: name all of its events in one")
        return self


class EvaluationSettings(SettingsModel):
    """Golden questions, and how much worse a release may answer them."""

    questions: tuple[Path, ...] = ()
    floor: Ratio = 0.0  # of nDCG@10
    allowed_drop: Ratio = 0.05  # of nDCG@10, against the live release


class SqlModelSettings(SettingsModel):
    """SQL models besides those of the package."""

    folders: tuple[Path, ...] = ()  # with staging/, intermediate/, marts/ and tests/ inside


class TuningSettings(SettingsModel):
    """Whether the ranking is learned from the corpus by itself."""

    trigger: Literal["manual", "weekly"] = "manual"


class LogSettings(SettingsModel):
    """How long refreshes, model calls, queries and feedback are logged."""

    keep_days: int = Field(default=365, ge=1)
    queries: bool = True
    required: bool = False  # an answer whose query cannot be logged is refused

    @model_validator(mode="after")
    def _require_a_log(self) -> LogSettings:
        if self.required and not self.queries:
            raise ValueError("required needs queries: true, because nothing could be answered")
        return self


class GcsPushSettings(SettingsModel):
    """Who pushes notifications of Google Cloud Storage: a subscription of Pub/Sub with authentication."""

    audience: str = Field(min_length=1)  # as the subscription has it
    service_account: str = Field(min_length=1)  # the e-mail of the account that signs its tokens
    issuer: str = "https://accounts.google.com"


class WebhookSettings(SettingsModel):
    """What webhooks of services are verified with; without it, a service's are refused."""

    github_secret: SecretStr | None = None
    gitlab_token: SecretStr | None = None
    jira_secret: SecretStr | None = None
    confluence_secret: SecretStr | None = None
    slack_secret: SecretStr | None = None  # the app's signing secret
    s3_token: SecretStr | None = None  # sent as "Authorization: Bearer TOKEN"
    gcs: GcsPushSettings | None = None


class TraceSettings(SettingsModel):
    """Where traces of questions are sent, and what they hold; without an endpoint there are none."""

    endpoint: Annotated[str, Field(pattern=r"^https?://")] | None = None  # of OTLP over HTTP: ".../v1/traces"
    headers: SecretStr | None = None  # "name=value,name=value", as OpenTelemetry writes them
    sample_ratio: Ratio = 1.0  # of the requests that are not part of a trace already
    include_content: bool = False  # whether traces hold questions and the texts of results


class McpSettings(SettingsModel):
    """What agents are told of the tools, which they read before they ask anything."""

    tools: Literal["all", "core"] = "all"  # core: the five that most tasks need
    max_tokens: int = Field(default=8_000, ge=500)  # of one answer; longer ones are read in pages
    output_schemas: bool = False  # whether answers have a structured part, and the listing its schemas


VariableName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
HostName = Annotated[str, Field(pattern=r"^[a-z0-9_][a-z0-9._-]*$|^[0-9a-f:.]+$")]  # in lower case, no port


class ServeSettings(SettingsModel):
    """Where the server listens, and whom it answers."""

    host: str = "127.0.0.1"
    port: int = Field(default=8321, ge=0, le=65535)  # 0: any that is free
    anonymous: Literal["loopback", "public", "off"] = "loopback"  # who may ask without a token
    allowed_hosts: tuple[str, ...] = ()  # host names that clients may use; empty: every one
    cors_origins: tuple[str, ...] = ()
    timeout_s: float = Field(default=30.0, gt=0)  # of one answer
    max_body_bytes: int = Field(default=1_000_000, ge=1_000)
    max_total_body_bytes: int = Field(default=20_000_000, ge=1_000)  # of large bodies received at once
    max_connections: int = Field(default=500, ge=1)  # open at once; more are refused
    max_concurrent: int = Field(default=100, ge=1)  # requests answered at once; more wait
    max_concurrent_per_caller: int | None = Field(default=None, ge=1)  # None: half of the cores, at least 2
    background: bool = True  # what is expensive goes to a second process while several callers ask
    workers: int = Field(default=1, ge=1, le=64)  # processes that answer; the limits are those of all
    requests_per_minute: int = Field(default=600, ge=1)  # of a token that has no limit of its own
    source_roots: tuple[Path, ...] = ()  # folders below which sources declared over HTTP may be
    source_secrets: dict[VariableName, tuple[HostName, ...]] = Field(
        default_factory=dict[VariableName, tuple[HostName, ...]]
    )
    """Variables that sources declared over HTTP may name, and the hosts that each may be sent to."""
    oidc: OidcSettings | None = None  # where people sign in; None: own tokens alone
    webhooks: WebhookSettings = WebhookSettings.defaults()
    mcp: McpSettings = McpSettings.defaults()
    metrics: bool = False  # at /metrics, for Prometheus
    traces: TraceSettings = TraceSettings.defaults()
    log_format: Literal["json", "text"] | None = None  # None: text on a terminal, else JSON
    log_queries: bool = False  # whether the log holds questions, without their secrets


class SectionSettings(SettingsModel):
    """One section, with a search and a share of the budget of its own."""

    name: str = Field(pattern=r"^\w[\w-]*$", max_length=50)
    heading: str | None = Field(default=None, min_length=1)  # None: the name
    type: SectionType = "semantic"
    query: str | None = Field(default=None, min_length=1)  # a template; None: as suits the type
    filters: SectionFilters = SectionFilters()  # in addition to the task's
    format: SectionFormat = "excerpt"  # how its results are shown
    limit: int = Field(default=10, ge=1, le=50)  # results
    share: float = Field(gt=0, le=1)  # of the budget of all excerpts

    @model_validator(mode="after")
    def _require_no_query_of_types(self) -> Self:
        if self.type == "type_definitions" and (self.query or self.filters != SectionFilters()):
            raise ValueError("type_definitions follows the code graph: it takes neither query nor filters")
        return self


class ContextSettings(SettingsModel):
    """How the context of an agent's task is built."""

    max_tokens: int = Field(default=4000, ge=1)  # of the whole prompt
    tokenizer: str = Field(default="estimate", min_length=1)  # or where the reader's tokenizer.json is
    templates: Path | None = None  # a folder; its templates come before those of the package
    sections: dict[str, tuple[SectionSettings, ...]] = Field(default_factory=dict)  # by template's name

    @model_validator(mode="after")
    def _check_sections(self) -> Self:
        for template, several in self.sections.items():
            if (shares := sum(section.share for section in several)) > 1 + 1e-9:
                raise ValueError(
                    f"the shares of context.sections.{template} sum to {shares:g}; allowed: at most 1"
                )
            names = [section.name for section in several]
            if twice := next((name for name in names if names.count(name) > 1), None):
                raise ValueError(f"context.sections.{template} has two sections {twice!r}: rename one")
        return self

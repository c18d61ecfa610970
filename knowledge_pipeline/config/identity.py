"""Where people sign in, and what their groups allow: an OpenID provider, such as Keycloak, Entra or Auth0."""

from __future__ import annotations

import ipaddress
from typing import Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, model_validator

from knowledge_pipeline.config.model import SettingsModel

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
    scopes: tuple[Literal["query", "admin", "metrics", "events", "report"], ...] = ("query",)


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
        for each in self.groups:
            if each.everything and (each.tenant or each.principals):
                raise ValueError(
                    f"group {each.group!r} sees everything: it needs no tenant and no principals"
                )
            if not (each.everything or each.tenant or has_tenant) and (
                each.principals or "admin" in each.scopes
            ):
                raise ValueError(
                    f"group {each.group!r} has principals or the scope admin, which are those of a tenant: "
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
    return parts.scheme == "https" or (parts.scheme == "http" and _is_this_machine(host))


def _is_this_machine(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"

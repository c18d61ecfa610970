"""Whom the claims of a token name, and what they may see and do here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from knowledge_pipeline.config.identity import GroupMapping, OidcSettings
from knowledge_pipeline.errors import Forbidden, Unauthenticated
from knowledge_pipeline.json_values import is_list, is_object
from knowledge_pipeline.query.access import Access, Caller
from knowledge_pipeline.serve.tokens import Scope

_MAX_SUBJECT_CHARS = 300

_OVERAGE = (
    "the identity server left out your groups, because they are too many for a token: have it send those "
    "alone that are assigned to this application (Entra: groupMembershipClaims `ApplicationGroup`), or "
    "application roles, with serve.oidc.claims.groups `roles`"
)


@dataclass(frozen=True, slots=True)
class OidcSubject:
    """Somebody whom the identity server knows."""

    id: str  # issuer and user, as the audit log has them
    access: Access
    scopes: frozenset[Scope]
    expires_at_s: int  # of their token, in seconds since 1970

    def access_by(self, interface: str) -> Access:
        """What they may see, as they ask by an interface."""
        seen = self.access
        return Access(
            seen.tenant, seen.principals, everything=seen.everything, caller=Caller(interface, self.id)
        )


def name_subject(settings: OidcSettings, claims: Mapping[str, Any]) -> str:
    """Issuer and user of a valid token. Raises `Unauthenticated` where its claim names nobody."""
    user = _find_claim(claims, settings.user_claim)
    if not isinstance(user, str) or not 0 < len(user) <= _MAX_SUBJECT_CHARS or not user.isprintable():
        raise Unauthenticated(
            f"the token names nobody in its claim {settings.user_claim}: correct serve.oidc.claims.user"
        )
    return f"{settings.issuer}#{user}"


def resolve_subject(settings: OidcSettings, claims: Mapping[str, Any], subject_id: str) -> OidcSubject:
    """Whom the claims of a valid token name.

    Raises:
        Unauthenticated: a claim has another form than it should.
        Forbidden: the groups were left out, no mapping has the tenant, or no listed group is theirs.
    """
    groups = _read_groups(settings, claims)
    listed = [each for each in settings.groups if each.group in groups]
    if settings.only_listed_groups and not listed:
        raise Forbidden("none of your groups may use this server: see serve.oidc.groups")
    scopes = frozenset[Scope](scope for each in listed for scope in each.scopes) or frozenset[Scope](
        ("query",)
    )
    try:
        access = _build_access(settings, claims, groups, listed)
    except ValueError:
        raise Unauthenticated("the token has a group or tenant whose name cannot be stored") from None
    return OidcSubject(subject_id, access, scopes, int(claims["exp"]))


def _build_access(
    settings: OidcSettings, claims: Mapping[str, Any], groups: frozenset[str], listed: list[GroupMapping]
) -> Access:
    """Raises ValueError: a name cannot be that of a tenant or a principal."""
    if any(each.everything for each in listed):
        return Access(None, frozenset(), everything=True)
    tenant = _resolve_tenant(settings, claims, listed)
    principals = {name for each in listed for name in each.principals}
    if settings.group_names_are_principals:
        principals |= groups - {each.group for each in listed}
    if email := _read_verified_email(settings, claims):
        principals.add(email)
    return Access(tenant, frozenset(principals) if tenant else frozenset())


def _resolve_tenant(
    settings: OidcSettings, claims: Mapping[str, Any], listed: list[GroupMapping]
) -> str | None:
    """That of somebody's groups, else of the claim, else of everybody. Raises `Forbidden`."""
    of_groups = {each.tenant for each in listed if each.tenant}
    if len(of_groups) > 1:
        raise Forbidden("your groups are of several tenants: serve.oidc.groups has to give you one")
    if of_groups or not settings.tenant_claim:
        return of_groups.pop() if of_groups else settings.tenant
    value = _find_claim(claims, settings.tenant_claim)
    if value is None:
        return None
    if not isinstance(value, str):
        raise Unauthenticated(f"the claim {settings.tenant_claim} of the token is not text")
    if not settings.tenants:
        return value
    mapped = [each.tenant for each in settings.tenants if each.value == value]
    if not mapped:
        raise Forbidden("your organisation is none of serve.oidc.tenants: have it added")
    return mapped[0]


def _read_groups(settings: OidcSettings, claims: Mapping[str, Any]) -> frozenset[str]:
    """Raises `Forbidden` where they were left out, and `Unauthenticated` where they make no sense."""
    name = settings.groups_claim
    left_out = claims.get("_claim_names")
    if (is_object(left_out) and name in left_out) or claims.get("hasgroups"):
        raise Forbidden(_OVERAGE)
    value = _find_claim(claims, name)
    groups = [value] if isinstance(value, str) else [] if value is None else value
    if not is_list(groups) or not all(isinstance(each, str) and each for each in groups):
        raise Unauthenticated(
            f"the claim {name} of the token is not a list of names: correct serve.oidc.claims"
        )
    return frozenset(groups)


def _read_verified_email(settings: OidcSettings, claims: Mapping[str, Any]) -> str | None:
    """Their address, by which sources know them; None where they may have chosen it themselves."""
    email = _find_claim(claims, settings.claims.email)
    is_verified = settings.emails_are_verified or claims.get("email_verified") is True
    return email if is_verified and isinstance(email, str) and "@" in email else None


def _find_claim(claims: Mapping[str, Any], name: str) -> Any:
    """The claim of a name, which may have dots itself, else the one that it leads to through objects."""
    if name in claims:
        return claims[name]
    found: Any = claims
    for part in name.split("."):
        found = found.get(part) if is_object(found) else None
    return found

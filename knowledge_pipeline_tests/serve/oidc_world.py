"""An identity server whose people are the seers of `world`, and servers that trust it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from knowledge_pipeline.config.operation import OidcSettings
from knowledge_pipeline_tests.fakes.identity_server import IdentityServer
from knowledge_pipeline_tests.serve.world import SEERS

CLIENT = "knowledge"
AUDIENCE = "https://knowledge.test/api"
SECRET = "-".join(("client", "secret:/+ %~"))  # characters that credentials in a header are encoded for


def people() -> dict[str, dict[str, Any]]:
    """Claims of each seer: tenant as the organisation, principals as groups."""
    return {name: claims_of(name) for name in SEERS}


def claims_of(seer: str) -> dict[str, Any]:
    tenant, principals = SEERS[seer]
    claims = {"sub": f"sub-of-{seer}", "org": tenant, "groups": list(principals)}
    return {name: value for name, value in claims.items() if value is not None}


def trusting(identity: IdentityServer, **changed: Any) -> Callable[[str], OidcSettings]:
    """The settings of a server that is reached by a URL, and known to the identity server."""

    def build(url: str) -> OidcSettings:
        identity.register(CLIENT, SECRET, f"{url}/sign-in/callback", audience=AUDIENCE)
        given = {
            "issuer": identity.issuer,
            "client_id": CLIENT,
            "client_secret": SECRET,
            "audience": AUDIENCE,
            "public_url": url,
            "claims": {"tenant": "org"},
        }
        return OidcSettings.model_validate(given | changed)

    return build


def issue(identity: IdentityServer, seer: str, **claims: Any) -> str:
    """An access token of a seer."""
    return identity.issue(**{"aud": AUDIENCE, "azp": "some-cli", **claims_of(seer), **claims})

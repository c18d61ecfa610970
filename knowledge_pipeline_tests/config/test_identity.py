"""The settings of an identity server: what is refused, and the examples of docs/identity.md."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from ruamel.yaml import YAML

from knowledge_pipeline.config.operation import OidcSettings

PAGE = Path(__file__).parents[2] / "docs" / "identity.md"
MINIMAL = {
    "issuer": "https://login.example.com/realms/acme",
    "client_id": "knowledge",
    "public_url": "https://knowledge.example.com",
}


def read(**changed: Any) -> OidcSettings:
    return OidcSettings.model_validate(MINIMAL | changed)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"issuer": "http://login.example.com"}, "issuer has to be a URL with https"),
        ({"issuer": "https://ann:pw@login.example.com"}, "issuer has to be a URL with https"),
        ({"issuer": "https://login.example.com?a=b"}, "issuer has to be a URL with https"),
        ({"issuer": "https://login.example.com:port"}, "issuer has to be a URL with https"),
        ({"issuer": "file:///etc/passwd"}, "issuer has to be a URL with https"),
        ({"public_url": "http://10.0.0.1"}, "public_url has to be a URL with https"),
        ({"public_url": "https://knowledge.example.com/app"}, "public_url has no path"),
        ({"scopes": ["profile"]}, "scopes has to contain openid"),
        ({"tenant": "acme", "claims": {"tenant": "org"}}, "tenant is that of everybody"),
        ({"tenants": [{"value": "1", "tenant": "acme"}]}, "name it in claims.tenant"),
        ({"only_listed_groups": True}, "would refuse everybody"),
        ({"groups": [{"group": "a", "everything": True, "tenant": "acme"}]}, "sees everything"),
        ({"groups": [{"group": "a", "principals": ["ann"]}]}, "are those of a tenant"),
        ({"groups": [{"group": "a", "scopes": ["query", "admin"]}]}, "are those of a tenant"),
    ],
)
def test_settings_that_make_no_sense_are_refused_with_a_sentence(
    changed: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ValidationError, match=re.escape(sentence)):
        read(**changed)


def test_http_is_for_this_machine_alone() -> None:
    for host in ("127.0.0.1:8080", "localhost", "[::1]:1"):
        assert read(issuer=f"http://{host}/", public_url=f"http://{host}/").origin == f"http://{host}"


@pytest.mark.parametrize(
    ("provider", "claims"),
    [
        ("generic", ("sub", "groups", None)),
        ("keycloak", ("sub", "groups", None)),
        ("entra", ("oid", "groups", "tid")),
        ("auth0", ("sub", "groups", "org_id")),
    ],
)
def test_each_provider_has_its_names_of_claims(provider: str, claims: tuple[str | None, ...]) -> None:
    settings = read(provider=provider)
    assert (settings.user_claim, settings.groups_claim, settings.tenant_claim) == claims
    assert read(provider=provider, claims={"groups": "roles"}).groups_claim == "roles"
    assert read(provider=provider, tenant="acme").tenant_claim is None


@pytest.mark.parametrize(
    "example", re.findall(r"^```yaml\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
)
def test_every_example_of_the_page_is_valid(example: str) -> None:
    given = YAML(typ="safe").load(example)["serve"]
    assert OidcSettings.model_validate(given["oidc"]).client_id

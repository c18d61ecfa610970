"""A small OpenID provider on a real socket: discovery, keys, the authorization code flow with PKCE.

    with IdentityServer() as identity:
        identity.register("knowledge", secret, "http://127.0.0.1:8321/sign-in/callback")
        identity.people["ann"] = {"sub": "ann", "groups": ["payments"]}
        token = identity.issue(sub="ann", aud="knowledge")

It follows OpenID Connect Core and Discovery 1.0, RFC 6749, 7636 (S256 alone) and 8707, and it is as
strict as the certified ones are: a code is used once, with the verifier of its challenge.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import secrets
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote_plus, urlencode

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from knowledge_pipeline_tests.fakes.served import Asked, Sent, Served

PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey


@dataclass
class Client:
    secret: str | None
    redirect_uris: tuple[str, ...]
    audience: str | None = None  # of access tokens; None: the resource that is asked for, or the client


@dataclass
class Code:
    client_id: str
    redirect_uri: str
    challenge: str
    person: str
    nonce: str | None
    scope: str
    resource: str | None
    used: bool = False


@dataclass
class SigningPair:
    id: str
    key: PrivateKey
    algorithm: str

    def to_jwk(self) -> dict[str, Any]:
        algorithm = RSAAlgorithm if isinstance(self.key, rsa.RSAPrivateKey) else ECAlgorithm
        found = json.loads(algorithm.to_jwk(self.key.public_key()))
        return found | {"kid": self.id, "use": "sig", "alg": self.algorithm}

    def public_pem(self) -> bytes:
        form = serialization.PublicFormat.SubjectPublicKeyInfo
        return self.key.public_key().public_bytes(serialization.Encoding.PEM, form)


@dataclass
class Faults:
    """What may go wrong: change them while it runs."""

    down: bool = False  # every answer is 503
    wait_s: float = 0.0  # before each answer
    id_token: dict[str, Any] = field(default_factory=dict)  # claims that differ
    metadata: dict[str, Any] = field(default_factory=dict)


class IdentityServer(Served):
    """A context manager; `asked` counts requests by path."""

    def __init__(self, *, id_token_s: int = 300, host: str = "127.0.0.1") -> None:
        super().__init__()
        self._host = host
        self.clients: dict[str, Client] = {}
        self.people: dict[str, dict[str, Any]] = {}
        self.faults = Faults()
        self.asked: Counter[str] = Counter()
        self.keys = [create_pair()]
        self.id_token_s = id_token_s
        self.codes: dict[str, Code] = {}

    @property
    def address(self) -> str:
        """By a name of this machine: for browsers, `localhost` and `127.0.0.1` are two sites."""
        return super().address.replace("127.0.0.1", self._host)

    @property
    def issuer(self) -> str:
        return f"{self.address}/realms/acme"

    def register(
        self, client_id: str, secret: str | None, *redirect_uris: str, audience: str | None = None
    ) -> None:
        self.clients[client_id] = Client(secret, redirect_uris, audience)

    def rotate(self, algorithm: str = "RS256") -> None:
        """Sign with a new key from now on; the old ones are gone."""
        self.keys = [create_pair(algorithm)]

    def issue(
        self, *, pair: SigningPair | None = None, headers: dict[str, Any] | None = None, **claims: Any
    ) -> str:
        """A token; a claim of None is left out."""
        now, used = int(time.time()), pair or self.keys[-1]
        given = {"iss": self.issuer, "iat": now, "exp": now + 300, **claims}
        told = {name: value for name, value in given.items() if value is not None}
        return jwt.encode(told, used.key, used.algorithm, {"kid": used.id} | (headers or {}))

    def send(self, asked: Asked) -> Sent:
        path = asked.path.removeprefix("/realms/acme")
        self.asked[path] += 1
        if self.faults.down:
            return Sent(503, b"down", wait_s=self.faults.wait_s)
        answers = {
            "/.well-known/openid-configuration": self._discovery,
            "/keys": lambda _: _json({"keys": [pair.to_jwk() for pair in self.keys]}),
            "/authorize": self._authorize,
            "/continue": self._continue,
            "/token": self._token,
            "/logout": lambda _: Sent(200, b"<title>Signed out</title><h1>Signed out of Acme</h1>"),
        }
        sent = answers.get(path, lambda _: _json({"error": "not_found"}, 404))(asked)
        return Sent(sent.status, sent.body, sent.headers, self.faults.wait_s)

    def _discovery(self, _: Asked) -> Sent:
        issuer = self.issuer
        told = {
            "issuer": issuer,
            "authorization_endpoint": f"{issuer}/authorize",
            "token_endpoint": f"{issuer}/token",
            "jwks_uri": f"{issuer}/keys",
            "end_session_endpoint": f"{issuer}/logout",
            "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post", "none"],
            "authorization_response_iss_parameter_supported": True,
        }
        return _json(told | self.faults.metadata)

    def _authorize(self, asked: Asked) -> Sent:
        """A page on which one chooses who one is."""
        query = {name: values[0] for name, values in asked.query.items()}
        client = self.clients.get(query.get("client_id", ""))
        if client is None or query.get("redirect_uri") not in client.redirect_uris:
            return Sent(400, b"<h1>unknown client or redirect_uri</h1>")
        wrong = query.get("response_type") != "code" or query.get("code_challenge_method") != "S256"
        if wrong or len(query.get("code_challenge", "")) != 43 or not query.get("state"):
            return self._back(query, error="invalid_request")
        links = "".join(
            f'<p><a href="/realms/acme/continue?{html.escape(urlencode({**query, "person": name}))}">'
            f"Continue as {html.escape(name)}</a></p>"
            for name in self.people
        )
        refuse = html.escape(urlencode(query))
        page = f'<title>Acme</title><h1>Acme</h1>{links}<a href="/realms/acme/continue?{refuse}">Refuse</a>'
        return Sent(200, page.encode())

    def _continue(self, asked: Asked) -> Sent:
        query = {name: values[0] for name, values in asked.query.items()}
        if query.get("person") not in self.people:
            return self._back(query, error="access_denied")
        code = secrets.token_urlsafe(16)
        self.codes[code] = Code(
            query["client_id"],
            query["redirect_uri"],
            query["code_challenge"],
            query["person"],
            query.get("nonce"),
            query.get("scope", ""),
            query.get("resource"),
        )
        return self._back(query, code=code)

    def _back(self, query: dict[str, str], **answer: str) -> Sent:
        told = urlencode({**answer, "state": query.get("state", ""), "iss": self.issuer})
        return Sent(302, b"", {"Location": f"{query['redirect_uri']}?{told}"})

    def _token(self, asked: Asked) -> Sent:
        form = {name: values[0] for name, values in parse_qs(asked.content.decode()).items()}
        client_id, secret = _credentials(asked, form)
        client, code = self.clients.get(client_id), self.codes.get(form.get("code", ""))
        if client is None or client.secret != secret:
            return _json({"error": "invalid_client"}, 401)
        if code is None or code.used or code.client_id != client_id:
            return _json({"error": "invalid_grant"}, 400)
        code.used = True
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        if challenge != code.challenge or form.get("redirect_uri") != code.redirect_uri:
            return _json({"error": "invalid_grant"}, 400)
        person, now = self.people[code.person], int(time.time())
        id_token = {
            "aud": client_id,
            "azp": client_id,
            "nonce": code.nonce,
            "exp": now + self.id_token_s,
            **person,
        }
        audience = client.audience or code.resource or client_id
        told = {
            "access_token": self.issue(aud=audience, azp=client_id, scope=code.scope, **person),
            "token_type": "Bearer",
            "expires_in": 300,
            "id_token": self.issue(**(id_token | self.faults.id_token)),
        }
        return _json(told)


def create_pair(algorithm: str = "RS256") -> SigningPair:
    """A new key, with an id of its own."""
    key: PrivateKey = (
        ec.generate_private_key(ec.SECP256R1())
        if algorithm == "ES256"
        else rsa.generate_private_key(public_exponent=65537, key_size=2048)
    )
    return SigningPair(secrets.token_hex(8), key, algorithm)


def _credentials(asked: Asked, form: dict[str, str]) -> tuple[str, str | None]:
    scheme, _, value = asked.authorization.partition(" ")
    if scheme.lower() != "basic":
        return form.get("client_id", ""), form.get("client_secret")
    client_id, _, secret = base64.b64decode(value).decode().partition(":")
    return unquote_plus(client_id), unquote_plus(secret)


def _json(told: dict[str, Any], status: int = 200) -> Sent:
    return Sent(status, json.dumps(told).encode())

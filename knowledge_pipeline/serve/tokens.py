"""Tokens: who may query a server. Only digests are stored.

A token is 256 random bits after its id, so a fast digest is as good as a slow one: there is nothing to guess.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, get_args

from knowledge_pipeline.errors import InvalidQuery, NotFound, Unauthenticated
from knowledge_pipeline.query.access import Access, Caller
from knowledge_pipeline.store import access as rows
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.lance_storage import VersionStamp

Scope = Literal["query", "admin", "metrics", "events", "report", "push"]
SCOPES: tuple[Scope, ...] = get_args(Scope)

_PREFIX = "kpt"
OWN_PREFIX = f"{_PREFIX}_"
"""What every token of a store begins with."""

CALLBACK_PATH = "/sign-in/callback"  # where an identity server sends a browser back to, with an answer
MAX_PENDING_S = 600  # from the beginning of such a sign-in to its end

_RELOAD_INTERVAL_S = 1.0  # how long a revoked token may still be accepted


@dataclass(frozen=True, slots=True)
class Token:
    """What a token allows."""

    id: str
    name: str  # for people: whose it is, or what for
    tenant: str | None
    principals: tuple[str, ...]
    everything: bool  # sees all tenants and all private documents
    scopes: frozenset[Scope]
    requests_per_minute: int | None  # None: as configured
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None

    def is_valid(self, now: datetime) -> bool:
        """Whether it can be used."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)

    def access(self, caller: Caller) -> Access:
        """What its holder may see."""
        return Access(self.tenant, frozenset(self.principals), everything=self.everything, caller=caller)


class TokenStore:
    """The tokens of one store. Threads may share it."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._by_id: dict[str, tuple[str, Token]] = {}  # with the digest
        self._of_process: dict[str, tuple[str, Token]] = {}  # the same, of tokens that are not stored
        self._mark: VersionStamp | None = None
        self._checked_s = -_RELOAD_INTERVAL_S
        self._lock = threading.Lock()

    def create(
        self,
        name: str,
        *,
        tenant: str | None = None,
        principals: Sequence[str] = (),
        everything: bool = False,
        scopes: Collection[Scope] = ("query",),
        requests_per_minute: int | None = None,
        expires_in: timedelta | None = None,
    ) -> tuple[Token, str]:
        """Make a token: what it allows, and the secret itself, which is not kept.

        Raises `InvalidQuery` for what no token can have, and `Busy` while other processes write tokens.
        """
        now = datetime.now(UTC)
        token = Token(
            id=secrets.token_hex(4),
            name=name.strip(),
            tenant=tenant,
            principals=tuple(principals),
            everything=everything,
            scopes=frozenset(scopes),
            requests_per_minute=requests_per_minute,
            created_at=now,
            expires_at=now + expires_in if expires_in else None,
            revoked_at=None,
        )
        _validate_token(token)
        secret = _create_secret(token.id)
        row = {**asdict(token), "principals": list(token.principals), "scopes": sorted(token.scopes)}
        rows.upsert_token(self._lake, {**row, "digest": hash_secret(secret)})
        return token, secret

    def create_for_process(self, name: str) -> str:
        """The secret of a token that may read everything until this process ends; it is stored nowhere."""
        secret = _create_secret(secrets.token_hex(4))
        self.accept_for_process(secret, name)
        return secret

    def accept_for_process(self, secret: str, name: str) -> None:
        """Accept a secret that `create_for_process` made in another process of the server."""
        now, id_ = datetime.now(UTC), secret.split("_", 2)[1]
        token = Token(id_, name, None, (), True, frozenset({"query"}), None, now, None, None)
        self._of_process[id_] = hash_secret(secret), token

    def is_of_process(self, secret: str) -> bool:
        """Whether a valid secret is one that `create_for_process` made."""
        token = self.verify_secret(secret)
        return token is not None and token.id in self._of_process

    def list_all(self) -> list[Token]:
        """Every token ever stored, oldest first."""
        return sorted(map(_token_from_row, rows.list_tokens(self._lake)), key=lambda token: token.created_at)

    def revoke(self, id_or_name: str) -> Token:
        """End a token; a running server refuses it within a second.

        Raises `NotFound` if no valid token has this id or name, and `InvalidQuery` if several have the name.
        """
        now = datetime.now(UTC)
        valid = {row["id"]: row for row in rows.list_tokens(self._lake) if _token_from_row(row).is_valid(now)}
        matches = [row for row in valid.values() if id_or_name in (row["id"], row["name"])]
        if not matches:
            raise NotFound(f"there is no valid token {id_or_name!r}: see `knowledge token list`")
        if len(matches) > 1:
            raise InvalidQuery(
                f"{len(matches)} tokens have the name {id_or_name!r}: give the id of one, as "
                "`knowledge token list` shows it"
            )
        revoked = {**matches[0], "revoked_at": now}
        rows.upsert_token(self._lake, revoked)
        return _token_from_row(revoked)

    def verify_secret(self, secret: str) -> Token | None:
        """The token of a secret; None if it is unknown, expired or revoked."""
        self._reload_if_changed()
        parts = secret.split("_", 2)
        id_ = parts[1] if len(parts) == 3 and parts[0] == _PREFIX else ""
        entry = self._of_process.get(id_) or self._by_id.get(id_)
        digest, token = entry or ("", None)
        same = hmac.compare_digest(digest, hash_secret(secret))
        return token if token and same and token.is_valid(datetime.now(UTC)) else None

    @property
    def are_read(self) -> bool:
        """Whether the next secret is verified by what is in memory, without a look at the table."""
        return time.monotonic() - self._checked_s < _RELOAD_INTERVAL_S

    def _reload_if_changed(self) -> None:
        """Read the table again if it has changed; at most every `_RELOAD_INTERVAL_S`."""
        with self._lock:
            if self.are_read:
                return
            mark = self._lake.tokens().version_stamp
            if mark != self._mark:
                self._by_id = {
                    row["id"]: (row["digest"], _token_from_row(row)) for row in rows.list_tokens(self._lake)
                }
            self._mark, self._checked_s = mark, time.monotonic()


def read_bearer_token(headers: Mapping[str, str]) -> str | None:
    """The token of an `Authorization` header; None without one. Raises `Unauthenticated` for another kind."""
    header = headers.get("authorization")
    if header is None:
        return None
    scheme, _, token = header.partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise Unauthenticated("only bearer tokens are accepted: send `Authorization: Bearer TOKEN`")
    return token.strip()


def _create_secret(token_id: str) -> str:
    return f"{_PREFIX}_{token_id}_{secrets.token_urlsafe(32)}"


def hash_secret(secret: str) -> str:
    """What is kept in place of a secret."""
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


def _token_from_row(row: dict[str, Any]) -> Token:
    values = {key: value for key, value in row.items() if key != "digest"}
    values |= {"principals": tuple(row["principals"]), "scopes": frozenset(row["scopes"])}
    return Token(**values)


def _validate_token(token: Token) -> None:
    if not 0 < len(token.name) <= 200:
        raise InvalidQuery("a token needs a name of at most 200 characters: whose it is, or what for")
    if token.principals and not token.tenant:
        raise InvalidQuery("principals are those of a tenant: name the tenant, too")
    if token.everything and (token.tenant or token.principals):
        raise InvalidQuery("a token that sees everything has no tenant and no principals")
    if not token.scopes or token.scopes - set(SCOPES):
        raise InvalidQuery(f"a token has one or more of the scopes {', '.join(SCOPES)}")
    if "admin" in token.scopes and not (token.everything or token.tenant):
        raise InvalidQuery(
            "the scope admin manages the sources of a tenant, or all: add --tenant NAME or --everything; "
            "a monitor needs --scope metrics alone"
        )
    if token.requests_per_minute is not None and token.requests_per_minute < 1:
        raise InvalidQuery("a token needs at least one request a minute")
    if token.expires_at is not None and token.expires_at <= token.created_at:
        raise InvalidQuery("a token cannot expire before it is made")
    try:
        token.access(Caller())
    except ValueError as error:
        raise InvalidQuery(str(error)) from error

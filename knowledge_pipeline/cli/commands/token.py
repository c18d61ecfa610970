"""`token create|list|revoke`: who may query a server."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, cast

from typer import Argument, Option

from knowledge_pipeline.cli.options import Names
from knowledge_pipeline.cli.render.terminal_text import format_time
from knowledge_pipeline.cli.session import Session, WrongUsage, example
from knowledge_pipeline.times import parse_duration

if TYPE_CHECKING:
    from knowledge_pipeline.serve.tokens import Scope, Token, TokenStore


@example("""
    knowledge token create "Ann's editor" --tenant acme --principal ann
    knowledge token create "search page" --expires 90d --rate 60
    knowledge token create deploy --everything --scope query --scope admin
""")
def create(
    session: Session,
    name: Annotated[str, Argument(metavar="NAME", help="Whose token it is, or its purpose.")],
    tenant: Annotated[str | None, Option(metavar="NAME", help="Grant what this tenant may see.")] = None,
    principal: Annotated[
        Names,
        Option(metavar="NAME", help="Grant this principal's private documents (repeatable)."),
    ] = None,
    everything: Annotated[
        bool, Option("--everything", help="Grant all tenants and all private documents.")
    ] = False,
    scope: Annotated[
        Names,
        Option(
            metavar="NAME", help="query, admin, metrics, events or report (repeatable).  [default: query]"
        ),
    ] = None,
    rate: Annotated[
        int | None,
        Option(metavar="N", help="Requests per minute.  [default: serve.requests_per_minute]", min=1),
    ] = None,
    expires: Annotated[
        str | None, Option(metavar="SPAN", help="How long it is valid: 12h, 90d, 52w.")
    ] = None,
) -> None:
    """Create a token for a server's clients, and print it once.

    Only its digest is stored. Without --tenant and --everything it grants public documents only.
    """
    expires_in = parse_duration((expires or "").strip().lower(), {"h": 1 / 24, "d": 1.0, "w": 7.0})
    if expires and not expires_in:
        raise WrongUsage(f"found --expires {expires!r}; allowed: hours, days or weeks, such as 12h, 90d, 52w")
    token, secret = _open_tokens(session).create(
        name,
        tenant=tenant,
        principals=tuple(principal or ()),
        everything=everything,
        scopes=cast("list[Scope]", scope or ["query"]),
        requests_per_minute=rate,
        expires_in=expires_in,
    )
    session.screen.print_json({**_token_row(token), "token": secret})
    session.screen.print_note(f"Token {token.id} for {token.name}. It is not shown again:")
    session.screen.print_text(secret)


@example("""
    knowledge token list
    knowledge token list --json
""")
def list_(session: Session) -> None:
    """List all tokens, with what they grant."""
    rows = [_token_row(token) for token in _open_tokens(session).list_all()]
    session.screen.print_json({"tokens": rows})
    session.screen.print_table([_format_row(row) for row in rows])
    if not rows:
        session.screen.print_text("There is no token yet: run `knowledge token create NAME`.")


@example("""
    knowledge token list
    knowledge token revoke 3f2a9c01
""")
def revoke(
    session: Session, token: Annotated[str, Argument(metavar="TOKEN", help="Its id, or its name.")]
) -> None:
    """Revoke a token; a running server refuses it within a second."""
    revoked = _open_tokens(session).revoke(token)
    session.screen.print_json(_token_row(revoked))
    session.screen.print_text(f"Token {revoked.id} ({revoked.name}) is revoked.")


COMMANDS = (create, list_, revoke)


def _open_tokens(session: Session) -> TokenStore:
    from knowledge_pipeline.serve.tokens import TokenStore

    return TokenStore(session.lake)


def _token_row(token: Token) -> dict[str, Any]:
    state = "revoked" if token.revoked_at else "expired" if not token.is_valid(datetime.now(UTC)) else "valid"
    return {
        "id": token.id,
        "name": token.name,
        "state": state,
        "tenant": token.tenant,
        "principals": list(token.principals),
        "everything": token.everything,
        "scopes": sorted(token.scopes),
        "requests_per_minute": token.requests_per_minute,
        "created_at": token.created_at.isoformat(),
        "expires_at": token.expires_at.isoformat() if token.expires_at else None,
        "revoked_at": token.revoked_at.isoformat() if token.revoked_at else None,
    }


def _format_row(row: dict[str, Any]) -> dict[str, Any]:
    sees = "everything" if row["everything"] else row["tenant"] or "what is public"
    principals = f" ({', '.join(row['principals'])})" if row["principals"] else ""
    return {
        **{name: row[name] for name in ("id", "name", "state")},
        "sees": sees + principals,
        "scopes": ", ".join(row["scopes"]),
        "created": format_time(row["created_at"]),
        "expires": format_time(row["expires_at"]),
    }

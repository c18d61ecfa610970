"""`serve` and `mcp`: the servers for programs, people and agents; `token`: who may query them."""

from __future__ import annotations

import os
import socket
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

from typer import Argument, Option

from knowledge_pipeline.cli.mcp_install import install
from knowledge_pipeline.cli.screen import format_time
from knowledge_pipeline.cli.session import Names, Session, WrongUsage, example
from knowledge_pipeline.errors import ConfigError
from knowledge_pipeline.extras import require_modules
from knowledge_pipeline.times import parse_duration

if TYPE_CHECKING:
    from knowledge_pipeline.config.settings import Settings
    from knowledge_pipeline.serve.tokens import Scope, Token, TokenStore

TOKEN_ENV = "KNOWLEDGE_TOKEN"  # noqa: S105 - the name of a variable
Tools = Literal["all", "core"]
_FULL_ACCESS = (
    "Without a token, public content only. All of it, until this server ends:\n{url}/sign-in?token={token}"
)


@example("""
    knowledge serve
    knowledge serve --port 9000
    knowledge serve --host 0.0.0.0
    knowledge serve --workers 4
""")
def serve(
    session: Session,
    host: Annotated[
        str | None, Option(metavar="NAME", help="Where to listen.  [default: serve.host]")
    ] = None,
    port: Annotated[
        int | None, Option(metavar="N", help="Port; 0: any free.  [default: serve.port]", min=0, max=65535)
    ] = None,
    workers: Annotated[
        int | None,
        Option(metavar="N", help="Processes that answer.  [default: serve.workers]", min=1, max=64),
    ] = None,
) -> None:
    """Serve over HTTP until interrupted.

    The search page is at /, the API at /api/v1/knowledge, its documentation at /docs. Requests
    without a token are answered for this machine only, unless serve.anonymous says otherwise, and
    see public content only. Where some is not public, a link to all of it is printed. With
    several workers, SIGHUP has them read the configuration again, one after the other.
    """
    require_modules("`knowledge serve`", "fastapi")
    options = {"host": host, "port": port, "workers": workers}
    overrides = {name: value for name, value in options.items() if value is not None}
    settings = session.settings
    for line in settings.unset_variables:
        session.screen.print_note(line)
    settings = settings.model_copy(update={"serve": settings.serve.model_copy(update=overrides)})
    host, port = settings.serve.host, settings.serve.port
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        why = error.strerror or str(error)
        raise WrongUsage(f"cannot listen on {host}:{port} ({why}): give another --host or --port") from error
    with listener as listening:
        address, bound_port = listening.getsockname()[:2]
        url = f"http://{f'[{address}]' if ':' in address else address}:{bound_port}"
        if settings.serve.workers > 1:
            _run_workers(session, settings, overrides, listening, url)
        else:
            _run_alone(session, settings, listening, url)


@example("""
    knowledge mcp
    knowledge mcp --tools core
    knowledge mcp --config /srv/knowledge/knowledge.yaml
    knowledge mcp --token-env TEAM_TOKEN
""")
def mcp(
    session: Session,
    token_env: Annotated[
        str | None,
        Option(
            metavar="NAME",
            help="Answer with the access of the token in this environment variable.  "
            f"[default: {TOKEN_ENV}, if it is set]",
        ),
    ] = None,
    tools: Annotated[
        Tools | None, Option(help="all, or core: the five that most tasks need.  [default: serve.mcp.tools]")
    ] = None,
) -> None:
    """Serve an agent over stdin and stdout, by the Model Context Protocol.

    Clients such as Claude Desktop, Cursor and VS Code start this command themselves: docs/agents.md
    has their settings. Without a token, the whole store is visible. To share one server, run
    `knowledge serve`, which speaks the same protocol at /mcp.
    """
    require_modules("`knowledge mcp`", "mcp")
    from knowledge_pipeline.cli.overlay import follow_tree
    from knowledge_pipeline.serve.mcp.server import run
    from knowledge_pipeline.serve.service import Service

    token = _read_token(token_env)
    settings = session.settings
    if tools is not None:
        mcp_settings = settings.serve.mcp.model_copy(update={"tools": tools})
        serve_settings = settings.serve.model_copy(update={"mcp": mcp_settings})
        settings = settings.model_copy(update={"serve": serve_settings})
    settings, choose_lake = follow_tree(settings)
    service = Service(settings, config=session.config_path, choose_lake=choose_lake)
    try:
        run(service, token=token, labels=session.labels)
    finally:
        service.close()


MCP_COMMANDS = (install,)


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
        Names, Option(metavar="NAME", help="Grant this principal's private documents (repeatable).")
    ] = None,
    everything: Annotated[
        bool, Option("--everything", help="Grant all tenants and all private documents.")
    ] = False,
    scope: Annotated[
        Names,
        Option(
            metavar="NAME",
            help="query, admin, metrics, events, report or push (repeatable).  [default: query]",
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


TOKEN_COMMANDS = (create, list_, revoke)


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


def _run_alone(session: Session, settings: Settings, listener: socket.socket, url: str) -> None:
    from knowledge_pipeline.serve.service import Service, answers_this_machine
    from knowledge_pipeline.serve.workers import run

    service = Service(settings, config=session.config_path)
    session.screen.print_note(f"Answering on {url}")
    if answers_this_machine(settings.serve) and _has_private_content(settings):
        token = service.tokens.create_for_process("start of the server")
        session.screen.print_note(_FULL_ACCESS.format(url=url, token=token))
    run(service, listener)


def _run_workers(
    session: Session, settings: Settings, overrides: dict[str, Any], listener: socket.socket, url: str
) -> None:
    from knowledge_pipeline.serve.service import answers_this_machine
    from knowledge_pipeline.serve.tokens import TokenStore
    from knowledge_pipeline.serve.workers import Launch, Supervisor
    from knowledge_pipeline.store.lake import Lake

    lake = Lake(settings.store)
    token = None
    if answers_this_machine(settings.serve) and _has_private_content(settings):
        token = TokenStore(lake).create_for_process("start of the server")
    port = listener.getsockname()[1]
    launch = Launch(session.config_path, overrides, settings.serve.workers, lake.folder, port, token)
    launch.forget_former_server()

    def report_ready() -> None:
        session.screen.print_note(f"Answering on {url} with {launch.workers} workers")
        if token:
            session.screen.print_note(_FULL_ACCESS.format(url=url, token=token))

    Supervisor(launch, listener).run(on_ready=report_ready)


def _has_private_content(settings: Settings) -> bool:
    """Whether some content is not public; of a federation's stores, it may be."""
    is_private = any(source.access.visibility != "public" for source in settings.sources)
    return is_private or bool(settings.federation.stores)


def _read_token(variable: str | None) -> str | None:
    """The token in a variable; an empty one is an error, never the operator's access."""
    name = variable or TOKEN_ENV
    token = os.environ.get(name)
    if token == "" or (token is None and variable):
        state = "is empty" if token == "" else "is not set"
        raise ConfigError(f"the environment variable {name} {state}: set it to a token, or leave it out")
    return token

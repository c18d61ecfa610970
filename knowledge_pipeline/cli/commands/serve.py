"""`serve`: the HTTP server for programs and people."""

from __future__ import annotations

import socket
from typing import Annotated

from typer import Option

from knowledge_pipeline.cli.session import Session, WrongUsage, example
from knowledge_pipeline.extras import require_modules


@example("""
    knowledge serve
    knowledge serve --port 9000
    knowledge serve --host 0.0.0.0
""")
def serve(
    session: Session,
    host: Annotated[
        str | None, Option(metavar="NAME", help="Where to listen.  [default: serve.host]")
    ] = None,
    port: Annotated[
        int | None, Option(metavar="N", help="Port; 0: any free.  [default: serve.port]", min=0, max=65535)
    ] = None,
) -> None:
    """Serve over HTTP until interrupted.

    The search page is at /, the API at /api/v1/knowledge, its documentation at /docs. Requests
    without a token are answered for this machine only, unless serve.anonymous says otherwise, and
    see public content only. Where some is not public, a link to all of it is printed.
    """
    require_modules("`knowledge serve`", "fastapi")
    from knowledge_pipeline.serve.server import run
    from knowledge_pipeline.serve.service import Service

    settings = session.settings
    overrides = {name: value for name, value in (("host", host), ("port", port)) if value is not None}
    settings = settings.model_copy(update={"serve": settings.serve.model_copy(update=overrides)})
    with _open_socket(settings.serve.host, settings.serve.port) as listening:
        address, bound_port = listening.getsockname()[:2]
        shown = f"[{address}]" if ":" in address else address
        service, url = Service(settings, config=session.config_path), f"http://{shown}:{bound_port}"
        session.screen.print_note(f"Answering on {url}")
        if service.answers_this_machine and any(s.access.visibility != "public" for s in settings.sources):
            token = service.tokens.create_for_process("start of the server")
            session.screen.print_note(
                "Without a token, public content only. All of it, until this server ends:\n"
                f"{url}/sign-in?token={token}"
            )
        run(service, listening)


def _open_socket(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        why = error.strerror or str(error)
        raise WrongUsage(f"cannot listen on {host}:{port} ({why}): give another --host or --port") from error

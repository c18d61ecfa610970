"""`serve`: the HTTP server for programs and people."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

from typer import Option

from knowledge_pipeline.cli.session import Session, WrongUsage, example
from knowledge_pipeline.extras import require_modules

if TYPE_CHECKING:
    from knowledge_pipeline.config.settings import Settings

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
    given = {"host": host, "port": port, "workers": workers}
    overrides = {name: value for name, value in given.items() if value is not None}
    settings = session.settings
    settings = settings.model_copy(update={"serve": settings.serve.model_copy(update=overrides)})
    with _open_socket(settings.serve.host, settings.serve.port) as listening:
        address, bound_port = listening.getsockname()[:2]
        shown = f"[{address}]" if ":" in address else address
        if settings.serve.workers > 1:
            _run_workers(session, settings, overrides, listening, f"http://{shown}:{bound_port}")
        else:
            _run_alone(session, settings, listening, f"http://{shown}:{bound_port}")


def _run_alone(session: Session, settings: Settings, listener: socket.socket, url: str) -> None:
    from knowledge_pipeline.serve.server import run
    from knowledge_pipeline.serve.service import Service

    service = Service(settings, config=session.config_path)
    session.screen.print_note(f"Answering on {url}")
    if service.answers_this_machine and _has_private_content(settings):
        token = service.tokens.create_for_process("start of the server")
        session.screen.print_note(_FULL_ACCESS.format(url=url, token=token))
    run(service, listener)


def _run_workers(
    session: Session,
    settings: Settings,
    overrides: Mapping[str, str | int],
    listener: socket.socket,
    url: str,
) -> None:
    from knowledge_pipeline.serve.service import answers_this_machine
    from knowledge_pipeline.serve.tokens import TokenStore
    from knowledge_pipeline.serve.workers.launch import Launch, prepare_state_folder
    from knowledge_pipeline.serve.workers.supervisor import Supervisor
    from knowledge_pipeline.store.lake import Lake

    lake = Lake(settings.store)
    token = None
    if answers_this_machine(settings.serve) and _has_private_content(settings):
        token = TokenStore(lake).create_for_process("start of the server")
    folder = prepare_state_folder(lake.folder, listener.getsockname()[1])
    launch = Launch(session.config_path, overrides, settings.serve.workers, folder, token)

    def report_ready() -> None:
        session.screen.print_note(f"Answering on {url} with {launch.workers} workers")
        if token:
            session.screen.print_note(_FULL_ACCESS.format(url=url, token=token))

    Supervisor(launch, listener).run(on_ready=report_ready)


def _has_private_content(settings: Settings) -> bool:
    """Whether some content is not public; of a federation's stores, it may be."""
    is_private = any(source.access.visibility != "public" for source in settings.sources)
    return is_private or bool(settings.federation.stores)


def _open_socket(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        why = error.strerror or str(error)
        raise WrongUsage(f"cannot listen on {host}:{port} ({why}): give another --host or --port") from error

"""`purge`: erase content permanently."""

from __future__ import annotations

from typing import Annotated

from typer import Option

from knowledge_pipeline.cli.exit_codes import FAILED
from knowledge_pipeline.cli.options import Source, Yes
from knowledge_pipeline.cli.prompts import confirm
from knowledge_pipeline.cli.render.terminal_text import format_count
from knowledge_pipeline.cli.session import Session, WrongUsage, example


@example("""
    knowledge purge --source flask-docs --archived
    knowledge purge --source flask-docs --uri docs/secret.md --yes
    knowledge purge --source flask-docs --yes
""")
def purge(
    session: Session,
    source: Source,
    uri: Annotated[str | None, Option(metavar="URI", help="Only this document.")] = None,
    archived: Annotated[
        bool, Option("--archived", help="Only documents that the source no longer has.")
    ] = False,
    yes: Yes = False,
) -> int | None:
    """Erase content permanently.

    Erases documents, vectors, index rows, old versions and all earlier releases. The
    source stays in knowledge.yaml: the next refresh reads its documents again, unless
    they are excluded there. What is live is the last release without what was erased:
    what was indexed since waits for the next refresh, and for its checks.
    """
    from knowledge_pipeline.maintenance.purge import purge_documents, purge_source

    if uri is not None and archived:
        raise WrongUsage("give --uri or --archived, not both")
    which = f"the document {uri!r}" if uri else "all archived documents" if archived else "everything"
    if not confirm(session, f"Erase {which} of source {source!r}, and all earlier releases?", yes=yes):
        return FAILED
    if uri is not None or archived:
        count = purge_documents(session.lake, session.settings_without_secrets, source, uri=uri)
    else:
        count = purge_source(session.lake, session.settings_without_secrets, source)
    session.screen.print_json({"source": source, "documents": count})
    session.screen.print_text(f"Erased {format_count(count, 'document')} of {source}.")
    return None

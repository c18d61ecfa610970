"""`init`: the first `knowledge.yaml`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument

from knowledge_pipeline.cli.session import Session, example, resolve_config


@example("""
    knowledge init
    knowledge init ../service --config knowledge.yaml
""")
def init(
    session: Session,
    folder: Annotated[
        Path, Argument(metavar="FOLDER", help="The folder to index.", show_default=False)
    ] = Path(),
) -> None:
    """Write a knowledge.yaml that declares what a folder holds.

    Writes it into the folder, or to --config. Nothing is indexed yet.
    """
    from knowledge_pipeline.config.file import load_settings
    from knowledge_pipeline.config.template import write_initial_config

    path = resolve_config(session.config) if session.config else folder / "knowledge.yaml"
    write_initial_config(path, folder)
    sources = load_settings(path).sources
    declared = [{"id": source.id, "type": source.type} for source in sources]
    session.screen.print_json({"config": str(path.absolute()), "sources": declared})
    session.screen.print_text(f"Wrote {path}")
    session.screen.print_table([{"source": source.id, "type": source.type} for source in sources])
    option = "" if path.absolute().parent == Path.cwd() else f" --config {path}"
    step = f"knowledge index{option}" if sources else "knowledge index --repo PATH_OR_URL"
    session.screen.print_text(f"{'' if sources else 'Found nothing to index. '}Next: {step}")

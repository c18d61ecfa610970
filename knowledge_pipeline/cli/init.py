"""`init`: the first `knowledge.yaml`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from knowledge_pipeline.cli.session import Session, example


@example("""
    knowledge init
    knowledge init ../service --config knowledge.yaml
""")
def init(
    session: Session,
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="What is to be indexed.", show_default=False)
    ] = Path(),
) -> None:
    """Write a knowledge.yaml that declares what a folder holds.

    It goes into the folder, or where --config says. Nothing is indexed yet.
    """
    from knowledge_pipeline.config.file import load_settings
    from knowledge_pipeline.config.template import write_initial_config

    path = session.config.expanduser() if session.config else folder / "knowledge.yaml"
    path = path / "knowledge.yaml" if path.is_dir() else path
    write_initial_config(path, folder)
    sources = load_settings(path).sources
    screen = session.screen
    if screen.as_json:
        screen.print_json(
            {
                "config": str(path.absolute()),
                "sources": [{"id": source.id, "type": source.type} for source in sources],
            }
        )
        return
    screen.print_text(f"Wrote {path}")
    screen.print_table([{"source": source.id, "type": source.type} for source in sources])
    if sources:
        where = "" if path.absolute().parent == Path.cwd() else f" --config {path}"
        screen.print_text(f"Next: knowledge index{where}")
    else:
        screen.print_text("Nothing to index was found. Next: knowledge index --repo PATH_OR_URL")

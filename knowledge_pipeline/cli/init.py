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
    from knowledge_pipeline.config.file import load
    from knowledge_pipeline.config.template import write_initial

    path = session.config.expanduser() if session.config else folder / "knowledge.yaml"
    path = path / "knowledge.yaml" if path.is_dir() else path
    write_initial(path, folder)
    sources = load(path).sources
    screen = session.screen
    if screen.as_json:
        screen.answer(
            {
                "config": str(path.absolute()),
                "sources": [{"id": source.id, "type": source.type} for source in sources],
            }
        )
        return
    screen.say(f"Wrote {path}")
    screen.table([{"source": source.id, "type": source.type} for source in sources])
    if sources:
        where = "" if path.absolute().parent == Path.cwd() else f" --config {path}"
        screen.say(f"Next: knowledge index{where}")
    else:
        screen.say("Nothing to index was found. Next: knowledge index --repo PATH_OR_URL")

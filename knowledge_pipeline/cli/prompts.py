"""Questions to the person at the terminal."""

from __future__ import annotations

import typer

from knowledge_pipeline.cli.session import Session, WrongUsage


def confirm(session: Session, question: str, *, yes: bool) -> bool:
    """Whether the user confirms, by `--yes` or at the prompt; raises WrongUsage if there is no terminal."""
    if yes:
        return True
    if not session.screen.is_interactive:
        raise WrongUsage("this cannot be undone, and there is no terminal to ask on: add --yes")
    if typer.confirm(question, err=True):
        return True
    session.screen.print_note("Nothing was done.")
    return False


def ask(session: Session, question: str, *, option: str) -> str:
    """The answer to a question; raises WrongUsage, naming the option to give, if there is no terminal."""
    if not session.screen.is_interactive:
        raise WrongUsage(f"give {option}")
    return str(typer.prompt(question, err=True))

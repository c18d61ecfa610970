"""Runs a command line with options, prompts and a progress bar."""

import click
from click.testing import CliRunner


@click.group()
@click.option("--debug/--no-debug", default=False)
@click.pass_context
def cli(ctx, debug):
    ctx.obj = debug


@cli.command()
@click.argument("names", nargs=-1)
@click.option("--count", type=click.IntRange(1, 5), default=2, show_default=True, help="how many")
@click.option("--kind", type=click.Choice(["a", "b"]), multiple=True)
@click.option("--file", type=click.File("w"), default="-")
@click.option("--ask", prompt=True)
def run(names, count, kind, file, ask):
    click.secho("x", fg="red")
    click.echo("y", file=file)
    with click.progressbar(range(3)) as bar:
        for _ in bar:
            pass


for given in (
    ["--help"],
    ["run", "--help"],
    ["run", "a", "--count", "3", "--kind", "a"],
    ["run", "--count", "9"],
    ["nope"],
):
    CliRunner().invoke(cli, given, input="hello\n")

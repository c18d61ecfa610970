"""Prints tables, Markdown, trees, progress and a traceback."""

import io

from rich.console import Console
from rich.markdown import Markdown
from rich.panel import Panel
from rich.pretty import Pretty
from rich.progress import Progress
from rich.syntax import Syntax
from rich.table import Table
from rich.traceback import Traceback
from rich.tree import Tree

console = Console(file=io.StringIO(), width=80, force_terminal=True, color_system="truecolor")
table = Table("a", "b", title="t")
table.add_row("[red]x[/]", "y" * 90)
console.print(table)
console.print(Markdown("# h\n\n* a\n* b\n\n```python\nx = 1\n```\n\n> q\n\n|a|b|\n|-|-|\n|1|2|\n"))
console.print(Panel("x", title="t"), Syntax("def f(): pass", "python"), Pretty({"a": [1, {2, 3}]}))
tree = Tree("a")
tree.add("b").add("c")
console.print(tree)
console.rule("x")
console.log("y", {"z": 1})
with Progress(console=console) as progress:
    task = progress.add_task("t", total=2)
    progress.advance(task)
try:
    1 / 0
except ZeroDivisionError:
    console.print(Traceback())

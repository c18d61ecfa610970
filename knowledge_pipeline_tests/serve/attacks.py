"""Documents, code and paths that are full of HTML and scripts."""

from __future__ import annotations

from pathlib import Path

from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline_tests.conftest import Project, embedding_by
from knowledge_pipeline_tests.fakes.openai_server import OpenAIServer

ATTACK = '"><script>alert(1)</script><img src=x onerror=alert(2)>'
MARKDOWN = f"""---
title: Attack {ATTACK}
---

# Attack {ATTACK}

[script](javascript:alert(3)) [data](data:text/html,<script>alert(4)</script>)
[tab](java&#9;script:alert(5)) <javascript:alert(6)> [ref]

[quoted](https://example.org/"onmouseover="alert(7)) ![picture](https://example.org/tracker.png)

[ref]: vbscript:alert(8)

<iframe src="https://example.org"></iframe>

```html"onclick="alert(9)
{ATTACK}
```

| a | {ATTACK} |
|---|---|
| 1 | <style>*{{}}</style> |
"""
CODE = f'''"""Attack {ATTACK}"""


def attack():
    """{ATTACK}"""
    return '{ATTACK}'
'''


def attacked_by(root: Path, embedding: OpenAIServer) -> Settings:
    """Of a store that holds all of it."""
    project = Project(root, embedding_by(embedding))
    for folder, name, text in (
        ("docs", 'a"onclick="alert(1) \'<b>.md', MARKDOWN),
        ("docs", "plain.md", "# Plain\n\nNothing [else](other.md) to attack, [up](../../secret.md).\n"),
        ("docs", "other.md", "# Other\n\nNo attack either.\n"),
        ("code", 'b"><script>.py', CODE),
        ("code", "caller.py", "from attacked import attack\n\n\ndef more():\n    return attack()\n"),
    ):
        (root / folder).mkdir(exist_ok=True)
        (root / folder / name).write_text(text)
    project.declare("docs", "markdown", root / "docs")
    project.declare("code", "code", root / "code")
    assert not project.refresh().failures
    return project.settings

"""Documents, settings and a tokenizer for the tests of chunkers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from knowledge_pipeline.chunking.base import MeasuredDocument
from knowledge_pipeline.config.connections import LocalConnection
from knowledge_pipeline.config.sources import ChunkingSettings, MetadataSettings, SourceConfig
from knowledge_pipeline.contract.filters import SourceType
from knowledge_pipeline.records import Chunk, Document

_TOKEN = re.compile(r"\w{1,6}|[^\w\s]")


def tokenize(text: str) -> list[int]:
    """Word pieces of at most six characters, and single marks."""
    return [match.start() for match in _TOKEN.finditer(text)]


def document(
    text: str, path: str = "docs/guide.md", language: str | None = "markdown", **more: Any
) -> Document:
    return Document(uri=path, text=text, path=path, language=language, **more)


def source(
    type: SourceType = "markdown", metadata: MetadataSettings | None = None, **chunking: Any
) -> SourceConfig:
    return SourceConfig(
        id="docs",
        type=type,
        connection=LocalConnection(type="local", path=Path()),
        chunking=ChunkingSettings(**chunking),
        metadata=metadata or MetadataSettings(),
    )


def measured(text: str, **more: Any) -> MeasuredDocument:
    return MeasuredDocument(document(text, **more), tokenize)


def assert_sound(chunks: Sequence[Chunk], of: Document, max_tokens: int | None = None) -> None:
    """The promises of every chunker: exact slices, right lines, nothing lost that is text, the limit held."""
    covered = [False] * len(of.text)
    for chunk in chunks:
        assert of.text[chunk.start_char : chunk.end_char] == chunk.text
        assert chunk.text == chunk.text.strip() != ""
        assert chunk.start_line == of.text[: chunk.start_char].count("\n") + 1
        assert chunk.end_line == of.text[: chunk.end_char - 1].count("\n") + 1
        assert chunk.tokens == sum(chunk.start_char <= at < chunk.end_char for at in tokenize(of.text))
        assert max_tokens is None or chunk.tokens <= max_tokens
        before = of.text[: chunk.start_char]
        space = before[len(before.rstrip()) :]
        assert chunk.space_before == (space if len(space) <= 200 else "")
        for at in range(chunk.start_char, chunk.end_char):
            covered[at] = True
    lost = [at for at, char in enumerate(of.text) if not char.isspace() and not covered[at]]
    notes = {str(chunk.metadata.get("note", "")) for chunk in chunks}
    assert lost == [] or any("encoded data is left out" in note for note in notes)


_LINES = st.sampled_from(
    """# Top
## Second
### Third
#### Fourth
Title
=====
-----
```
~~~
```python
    indented
- item
  - nested
1. first
   continued
> quoted
>> twice
| a | b |
|---|---|
| 1 | 2 |
---
+++
tags: [a, b]
***
<div>
</div>
<h2>Shown</h2>
A sentence. Another one, e.g. this! Is it?
Dr. No paid 3.50 to J. K. at 5 p.m.
你好。再见！
..
.. code-block:: python
::
[label]: http://example.org/x
[a](b.md) and `code`
# Heading [x](y) *z* `c`
word""".splitlines()
)
_PARTS = st.one_of(
    _LINES,
    st.sampled_from(["", "", "\t", "  ", "\u2028odd\x85white\x0cspace", "\x00"]),
    st.text(max_size=12),
    st.text(alphabet=st.characters(exclude_categories=()), max_size=8),
    st.sampled_from(["word " * 60, "x" * 400, "a.b " * 50, "- deep\n  - deeper\n    - deepest\n", "😀" * 20]),
)
texts = st.builds(
    lambda parts, feed: feed.join(parts),
    st.lists(_PARTS, max_size=25),
    st.sampled_from(["\n", "\n", "\r\n", "\r", "\n\n"]),
)
"""Texts that look like Markdown, reStructuredText, code and nonsense, with every kind of line end."""

"""Ask a server for the context of a task: the prompt that an agent should read, with citations.

knowledge serve
KNOWLEDGE_TOKEN=... python examples/ask_server.py http://127.0.0.1:8321 "add retries to the client"
"""

import os
import sys

from knowledge_pipeline.client import KnowledgeClient
from knowledge_pipeline.errors import KnowledgeError


def main() -> None:
    """Print the prompt on stdout, and what it cites on stderr."""
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    address, task = sys.argv[1:]
    try:
        with KnowledgeClient(address, os.environ.get("KNOWLEDGE_TOKEN")) as client:
            context = client.context(task, max_tokens=4000)
    except KnowledgeError as error:
        sys.exit(str(error))
    print(context["text"])
    for excerpt in context["excerpts"]:
        citation = excerpt["citation"]
        print(f"[{excerpt['number']}] {citation['path']}:{citation['lines']}", file=sys.stderr)


if __name__ == "__main__":
    main()

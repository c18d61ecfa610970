"""Follow what happens to a knowledge base: releases, refreshed sources, failures.

python examples/follow_events.py http://127.0.0.1:8321 [AFTER]

AFTER is the position of the last event that was read; without it, those from now on are printed until Ctrl-C.
"""

import os
import sys
from contextlib import suppress

from knowledge_pipeline.client import KnowledgeClient
from knowledge_pipeline.errors import KnowledgeError


def main() -> None:
    """Print a line for each event; its position is where a later start goes on."""
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    address, *after = sys.argv[1:]
    try:
        with (
            KnowledgeClient(address, os.environ.get("KNOWLEDGE_TOKEN")) as client,
            suppress(KeyboardInterrupt),
        ):
            for event in client.events(after=after[0] if after else None):
                print(event["position"], event["timestamp"], event["type"], event["data"], flush=True)
    except KnowledgeError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()

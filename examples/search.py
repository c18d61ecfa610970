"""Search the knowledge base of a folder, and print where the answers are.

knowledge index --repo PATH_OR_URL
python examples/search.py "how is a release made" --language python
"""

import argparse
import sys

from knowledge_pipeline import Filters, KnowledgeBase
from knowledge_pipeline.errors import KnowledgeError


def main() -> None:
    """Ask one question; code, pages and history answer together."""
    parser = argparse.ArgumentParser(description="Search the knowledge base of a folder.")
    parser.add_argument("question")
    parser.add_argument("--folder", default=".", help="the folder of knowledge.yaml")
    parser.add_argument("--language", action="append", default=[], help="only files in this language")
    options = parser.parse_args()
    try:
        with KnowledgeBase.open(options.folder) as base:
            filters = Filters(languages=tuple(options.language))
            response = base.search(options.question, filters=filters, limit=5)
    except KnowledgeError as error:
        sys.exit(str(error))
    for result in response.results:
        citation = result.citation
        print(f"{result.score:.2f} {citation.path}:{citation.lines}  {citation.title or ''}")
    if response.degraded:
        print(f"without: {', '.join(response.degraded)}", file=sys.stderr)


if __name__ == "__main__":
    main()

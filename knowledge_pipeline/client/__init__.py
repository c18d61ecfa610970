"""A client of `knowledge serve`, without the dependencies of the server.

with KnowledgeClient("https://knowledge.example.org", token) as client:
    for result in client.search("how are sessions signed")["results"]:
        print(result["citation"]["path"], result["citation"]["lines"])
"""

from __future__ import annotations

from knowledge_pipeline.client.knowledge_client import AsyncKnowledgeClient, KnowledgeClient

__all__ = ["AsyncKnowledgeClient", "KnowledgeClient"]

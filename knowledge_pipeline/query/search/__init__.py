"""One search from question to response: understand, retrieve, fuse, rank, rerank, assemble, enrich."""

"""One search from question to answer: understand, retrieve, fuse, rerank, assemble, enrich."""

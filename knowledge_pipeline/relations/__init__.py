"""Names of documents, and their mentions of each other: ids, links and front matter. Pure."""

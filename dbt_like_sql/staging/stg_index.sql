-- Rows of the index, as the next release will have them.
-- grain: one row per chunk and space
select
    space, -- the embedding model, as the index table is named
    id, -- of the chunk
    source,
    source_type,
    repo,
    uri,
    tokens,
    archived,
    coalesce(unembedded, false) as unembedded, -- has no vector yet, so words alone find it
    indexed_at, -- when the chunk was first written
    updated_at
from raw_index

-- Rows that the next release makes retrievable.
-- grain: one row per chunk and space
select space, id, source, source_type, uri, tokens, archived, indexed_at, updated_at
from raw_index

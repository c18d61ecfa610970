-- Chunks as they were cut; documents that gave none are not here.
-- grain: one row per chunk of a source
select source, source_type, id, uri, anchor, tokens, content_hash, text_key, symbol_kind, archived
from raw_chunks
where skipped is null

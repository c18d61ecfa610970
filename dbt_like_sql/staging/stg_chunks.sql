-- Chunks of documents; documents without one are left out.
-- grain: one row per chunk of a source
select
    source,
    source_type,
    id,
    uri, -- of the document
    path,
    anchor, -- place in the document's structure
    tokens, -- counted with the tokenizer of the source's model
    content_hash, -- of the text alone
    text_key, -- of header and text: the key of the chunk's vector
    symbol_kind,
    archived
from raw_chunks
where skipped is null

-- Documents that could not be read or chunked, and why.
-- answers: Which documents are missing, and why?
-- grain: one row per document that gives no chunk
select
    source,
    source_type,
    uri,
    skipped as reason,
    'snapshot' as stage -- where it was skipped
from stg_documents
where skipped is not null and not archived
union all
select source, source_type, uri, skipped as reason, 'chunks' as stage
from raw_chunks
where skipped is not null and not archived
order by source, uri

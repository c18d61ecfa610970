-- How much each source holds.
-- answers: How much does each source hold?
-- grain: one row per source
select
    source,
    source_type,
    count(*) as chunks,
    count(distinct uri) as documents,
    sum(tokens)::bigint as tokens,
    median(tokens) as median_tokens, -- of a chunk
    max(tokens) as max_tokens
from stg_chunks
where not archived
group by source, source_type
order by chunks desc, source

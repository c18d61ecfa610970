-- How much there is of each type, and how much of it is there more than once.
-- answers: How much is there of code, documents, tickets? How much of it is repeated?
-- grain: one row per source type
-- plot: bar x=source_type y=chunks
with counted as (
    select *, count(*) over (partition by source_type, content_hash) as copies
    from stg_chunks
    where not archived
)
select
    source_type,
    count(distinct source) as sources,
    count(distinct (source, uri)) as documents,
    count(*) as chunks,
    sum(tokens)::bigint as tokens,
    count(*) filter (where copies > 1) as duplicate_chunks, -- whose text another chunk of the type has
    count(*) filter (where copies > 1) / count(*) as duplicate_share
from counted
group by source_type
order by chunks desc, source_type

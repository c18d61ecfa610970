-- How large chunks are: a histogram.
-- answers: Are chunks too small or too large?
-- grain: one row per source type and size
-- plot: bar x=tokens_to y=chunks by=source_type
select
    source_type,
    (greatest(tokens - 1, 0) // 64) * 64 + 1 as tokens_from,
    (greatest(tokens - 1, 0) // 64) * 64 + 64 as tokens_to,
    count(*) as chunks
from stg_chunks
where not archived
group by source_type, tokens_from, tokens_to
order by source_type, tokens_from

-- Whether every chunk is in the index.
-- answers: Is everything in the index?
-- grain: one row per source
with cut as (
    select source, source_type, count(*) as chunks from stg_chunks group by source, source_type
),
indexed as (
    select source, count(*) as indexed_rows, max(updated_at) as updated_at from stg_index group by source
)
select
    cut.source,
    cut.source_type,
    cut.chunks,
    coalesce(indexed.indexed_rows, 0) as indexed_rows,
    coalesce(indexed.indexed_rows, 0) / cut.chunks as coverage, -- 1 is everything
    indexed.updated_at -- when a row of the source was last written
from cut
left join indexed on indexed.source = cut.source
order by coverage, cut.source

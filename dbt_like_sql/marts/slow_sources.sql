-- Which sources take longest to refresh, the slowest first.
-- answers: Which sources take longest to refresh?
-- grain: one row per source and stage
select
    source,
    source_type,
    stage,
    count(*) as refreshes,
    quantile_cont(seconds, 0.5) as median_seconds,
    max(seconds) as max_seconds,
    sum(seconds) as seconds
from stg_refreshes
group by source, source_type, stage
order by seconds desc, source, stage

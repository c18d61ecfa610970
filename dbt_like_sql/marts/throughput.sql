-- How much work each stage did, and how fast; for embeddings that is texts embedded per second.
-- answers: How fast is a refresh?
-- grain: one row per day and stage
-- plot: line x=day y=per_second by=stage
select
    day,
    stage,
    count(*) as refreshes, -- of a source
    sum(added + changed)::bigint as items, -- rows or documents, as the stage counts them
    sum(tokens)::bigint as tokens,
    sum(seconds) as seconds,
    round(
        (sum(added + changed) filter (where added + changed > 0))
        / nullif(sum(seconds) filter (where added + changed > 0), 0), 1
    ) as per_second -- over the refreshes that changed anything
from stg_refreshes
group by day, stage
order by day, stage

-- How quickly each interface answers queries, with and without cached responses.
-- answers: By which interface do people and agents ask? How much does the cache save?
-- grain: one row per day and interface
-- plot: line x=day y=p95_ms by=interface
-- plot: line x=day y=cache_hit_rate by=interface
select
    day,
    interface,
    count(*) as queries,
    count(distinct token) as tokens, -- access tokens that asked
    quantile_cont(took_ms, 0.5) as p50_ms, -- cached answers included
    quantile_cont(took_ms, 0.95) as p95_ms,
    quantile_cont(took_ms, 0.99) as p99_ms,
    quantile_cont(took_ms, 0.95) filter (where not cached) as p95_uncached_ms,
    count(*) filter (where cached) / count(*) as cache_hit_rate,
    count(*) filter (where degraded) / count(*) as degraded_rate
from stg_queries
group by day, interface
order by day, interface

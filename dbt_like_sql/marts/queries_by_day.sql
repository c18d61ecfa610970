-- How quickly and how well questions were answered.
-- answers: How fast are answers? How often is nothing found? Do people use what is found?
-- grain: one row per day and search type
-- plot: line x=day y=p95_ms by=type
-- plot: line x=day y=zero_result_rate by=type
select
    stg_queries.day,
    stg_queries.type,
    count(*) as queries,
    quantile_cont(stg_queries.took_ms, 0.5) as p50_ms, -- cached answers included
    quantile_cont(stg_queries.took_ms, 0.95) as p95_ms,
    quantile_cont(stg_queries.took_ms, 0.99) as p99_ms,
    count(*) filter (where stg_queries.cached) / count(*) as cache_hit_rate,
    count(*) filter (where stg_queries.results = 0) / count(*) as zero_result_rate,
    count(*) filter (where stg_queries.degraded) / count(*) as degraded_rate,
    count(*) filter (where int_feedback.clicked > 0) / count(*) as click_through_rate, -- with a click on a result
    count(*) filter (where int_feedback.useful > 0) as useful, -- questions with such a result
    count(*) filter (where int_feedback.useless > 0) as useless
from stg_queries
left join int_feedback on int_feedback.query_id = stg_queries.query_id
group by stg_queries.day, stg_queries.type
order by stg_queries.day, stg_queries.type

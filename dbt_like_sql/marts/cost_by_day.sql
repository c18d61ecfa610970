-- What models cost day by day.
-- answers: How does cost develop?
-- grain: one row per day, kind, provider and model
-- plot: line x=day y=cost by=model
-- plot: line x=day y=tokens by=model
select
    day,
    kind,
    provider,
    model,
    sum(calls)::bigint as calls,
    sum(tokens)::bigint as tokens,
    sum(cost) as cost,
    sum(seconds) as seconds
from stg_model_calls
group by day, kind, provider, model
order by day, kind, provider, model

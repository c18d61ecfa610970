-- What embedding the texts of each source has cost, the costliest first.
-- answers: Which sources cost most?
-- grain: one row per source, provider and model
-- plot: bar x=source y=cost
-- plot: bar x=source y=tokens
select
    source,
    provider,
    model,
    sum(calls)::bigint as calls, -- texts, for a model that runs here
    sum(tokens)::bigint as tokens,
    sum(cost) as cost,
    sum(seconds) as seconds,
    round(sum(tokens) / nullif(sum(seconds), 0), 1) as tokens_per_second,
    max(called_at) as last_at
from stg_model_calls
where source is not null
group by source, provider, model
order by cost desc, tokens desc, source

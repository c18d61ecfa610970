-- What models have cost each project, month by month.
-- answers: What does each project cost?
-- grain: one row per project, tenant, month, kind and model; calls for no project are under ''
-- plot: line x=month y=cost by=project
select
    coalesce(project, '') as project,
    tenant,
    date_trunc('month', day)::date as month,
    kind,
    model,
    count(distinct session) as sessions,
    sum(calls)::bigint as calls,
    coalesce(sum(calls) filter (where reported_by <> 'us'), 0)::bigint as reported_calls, -- of agents
    sum(tokens)::bigint as tokens,
    sum(cost) as cost
from stg_model_calls
group by coalesce(project, ''), tenant, date_trunc('month', day), kind, model
order by month desc, cost desc, project

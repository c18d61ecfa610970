-- What the models that a session used have cost, the newest session first.
-- answers: What did an agent's session cost?
-- grain: one row per session, project and tenant
select
    session,
    project,
    tenant,
    count(distinct model) as models,
    sum(calls)::bigint as calls,
    coalesce(sum(calls) filter (where reported_by <> 'us'), 0)::bigint as reported_calls, -- of agents
    sum(tokens)::bigint as tokens,
    sum(cost) as cost,
    min(called_at) as first_at,
    max(called_at) as last_at
from stg_model_calls
where session is not null
group by session, project, tenant
order by last_at desc, session

-- What the models that a session used have cost, the newest session first.
-- answers: What did an agent's session cost?
-- grain: one row per session and project
select
    session,
    project,
    count(distinct model) as models,
    sum(calls)::bigint as calls,
    sum(tokens)::bigint as tokens,
    sum(cost) as cost,
    min(called_at) as first_at,
    max(called_at) as last_at
from stg_model_calls
where session is not null
group by session, project
order by last_at desc, session

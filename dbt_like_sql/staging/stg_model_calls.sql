-- What embedding models and language models were asked to do, and what it cost.
-- grain: one row per use of a model, which may sum up many calls
select
    "at" as called_at,
    "at"::date as day, -- in UTC
    kind, -- embedding or completion
    provider,
    model,
    source, -- whose texts were embedded
    session, -- of the user or agent who asked
    project,
    on_behalf_of, -- whom the user or agent works for, as they say
    tenant,
    token, -- id of the access token of the question or the report
    case when interface is null then 'us' else coalesce(token, interface) end as reported_by, -- 'us': our call
    input_tokens,
    output_tokens,
    error, -- what a reported call ended in; null: it was answered
    calls,
    tokens,
    cost,
    seconds
from raw_llm_calls

-- What readers thought of results.
-- grain: one row per judgement
select
    "at" as judged_at,
    query_id,
    result_id, -- the chunk
    judgement, -- clicked, useful or useless
    tenant
from raw_feedback

-- Refreshes of sources that failed, whatever started them.
-- grain: one row per failure
select
    "at" as failed_at,
    source,
    source_type,
    problem -- in one sentence, without secrets
from raw_refreshes
where stage = 'failed'

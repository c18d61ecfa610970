-- How long ago each source was last refreshed completely, the stalest first.
-- answers: How fresh is each source?
-- grain: one row per source
with stored as (
    select source, source_type, max(last_modified) as newest_document
    from stg_documents
    group by source, source_type
),
refreshed as (
    select source, source_type, max(done_at) as refreshed_at
    from stg_refreshes
    where stage = 'index'
    group by source, source_type
)
select
    coalesce(stored.source, refreshed.source) as source,
    coalesce(stored.source_type, refreshed.source_type) as source_type,
    refreshed.refreshed_at, -- when its index was last brought up to date, whether anything changed or not
    round(date_diff('minute', refreshed.refreshed_at, now()) / 60, 1) as age_hours,
    stored.newest_document -- when a document of it was last modified
from stored
full join refreshed on refreshed.source = stored.source and refreshed.source_type = stored.source_type
order by age_hours desc nulls first, source

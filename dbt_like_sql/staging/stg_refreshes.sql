-- What every stage of every refresh did, recorded when the stage was done.
-- grain: one row per stage of one refresh of a source
select
    "at" as done_at, -- when the stage was done
    "at"::date as day, -- in UTC
    source,
    source_type,
    stage,
    seen, -- keys that should exist
    added,
    changed,
    removed,
    skipped,
    rows, -- of the source in the stage's table afterwards
    tokens,
    cost,
    seconds,
    run, -- the Dagster run, if there was one
    code, -- versions of the package and of the stage's code, where it changed anything
    settings -- JSON: digests of the settings that it used, where it changed anything
from raw_refreshes
where stage not in ('failed', 'verified')

-- The sources that are configured now.
-- grain: one row per configured source
select
    source,
    source_type,
    trigger, -- when it is refreshed
    max_age_hours, -- that its last refresh may have, by the trigger
    configured_at, -- when the configuration was last written
    chunks_code, -- version of the code of a stage
    graph_code,
    index_code,
    source_settings, -- digest of what is read, and from where
    chunking_settings,
    model_settings,
    access_settings
from raw_sources

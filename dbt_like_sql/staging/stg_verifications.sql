-- Comparisons of sources with their index, by the asset check `equals_source` and by `knowledge verify --sources`.
-- grain: one row per comparison of a source
select
    "at" as verified_at,
    source,
    source_type,
    seen as listed, -- documents that the source lists
    rows as stored, -- documents that are stored
    skipped as changed_since, -- documents that changed at the source since its last refresh
    changed as differences, -- documents that differ, and are mended by the next refresh
    problem -- what differs, or why it could not be compared
from raw_refreshes
where stage = 'verified'

-- Releases that a rollback can still return to.
-- grain: one row per release
select
    release,
    created_at,
    rows,
    restores, -- the release that a rollback returned to
    release = max(release) over () as live, -- whether queries read it now
    array_to_string(
        list_sort(list_transform(json_keys(tables), lambda space: space || ' ' || (tables ->> space))), ', '
    ) as index_versions -- each space, and each table of the code graph, with its version
from raw_releases

-- Releases that can still be gone back to.
-- grain: one row per release
select release, created_at, rows, restores, release = max(release) over () as live
from raw_releases

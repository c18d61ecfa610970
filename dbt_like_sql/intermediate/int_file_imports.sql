-- Which file of a source imports which other one.
-- grain: one row per pair of files of a source
select distinct
    source,
    path as from_path,
    target_path as to_path
from stg_edges
where kind = 'imports' and target_path is not null and target_path <> path

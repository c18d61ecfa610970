-- Whether the index holds what its sources do, comparison by comparison.
-- answers: Is the index what its sources are?
-- grain: one row per comparison of a source
-- plot: line x=verified_at y=differences by=source
select verified_at, source, source_type, listed, stored, changed_since, differences, problem
from stg_verifications
order by verified_at, source

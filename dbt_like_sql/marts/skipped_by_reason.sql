-- Why documents were skipped, the most frequent reason first.
-- answers: Why are documents skipped?
-- grain: one row per source type, stage and reason
select
    source_type,
    stage,
    reason,
    count(*) as documents,
    count(distinct source) as sources,
    min(source || '/' || uri) as example -- source and URI
from skipped_documents
group by source_type, stage, reason
order by documents desc, reason

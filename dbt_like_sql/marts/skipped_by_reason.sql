-- Why documents could not be taken, the most frequent reason first.
-- answers: What is most often wrong with documents?
-- grain: one row per source type, stage and reason
select
    source_type,
    stage,
    reason,
    count(*) as documents,
    count(distinct source) as sources,
    min(source || '/' || uri) as example -- source and uri
from skipped_documents
group by source_type, stage, reason
order by documents desc, reason

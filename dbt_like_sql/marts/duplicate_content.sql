-- Texts that several documents share, those that take the most space first.
-- answers: What is stored more than once?
-- grain: one row per text that more than one document has
select
    content_hash,
    count(*) as chunks,
    count(distinct (source, uri)) as documents,
    count(distinct source) as sources,
    max(tokens) as tokens, -- of the text, once
    (sum(tokens) - max(tokens))::bigint as repeated_tokens,
    min(source || '/' || uri) as first_place, -- source and URI
    max(source || '/' || uri) as last_place
from stg_chunks
where not archived
group by content_hash
having count(distinct (source, uri)) > 1
order by repeated_tokens desc, content_hash

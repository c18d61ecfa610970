-- Documents that others refer to, the most central first.
-- answers: Which documents matter most?
-- grain: one row per document that another one refers to
select
    target_source as source,
    target_uri as uri,
    count(*) as links,
    count(distinct (source, uri)) as documents, -- that refer to it
    count(*) filter (where kind = 'imports') as imports,
    count(*) filter (where kind = 'changes') as changes -- commits that changed it
from document_links
where target_uri is not null and (target_source, target_uri) <> (source, uri)
group by target_source, target_uri
order by documents desc, target_source, target_uri

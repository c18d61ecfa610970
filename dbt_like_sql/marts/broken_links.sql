-- Links in documents whose target is not indexed: it does not exist, or is excluded.
-- answers: Which links lead nowhere?
-- grain: one row per document, kind of link and target
select source, source_type, uri, kind, target
from document_links
where leads_to = 'unknown' and kind <> 'changes'
order by source, uri, target

-- Links in documents that lead to no document that is indexed: dead, or to what is left out.
-- answers: Which links lead nowhere?
-- grain: one row per document, kind of link and target
select source, source_type, uri, kind, target
from document_links
where leads_to = 'unknown' and kind <> 'changes'
order by source, uri, target

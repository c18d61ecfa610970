-- A source has each of its documents once.
select source, source_type, uri, count(*) as times
from stg_documents
group by source, source_type, uri
having count(*) > 1

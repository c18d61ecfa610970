-- A document is skipped for one reason.
select source, uri, count(*) as times
from skipped_documents
group by source, uri
having count(*) > 1

-- A link is resolved to one document.
select source, uri, kind, target, count(*) as times
from document_links
group by source, uri, kind, target
having count(*) > 1

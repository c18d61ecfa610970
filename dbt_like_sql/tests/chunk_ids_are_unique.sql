-- No chunk id is there twice.
select id, count(*) as times
from stg_chunks
group by id
having count(*) > 1

-- No two chunks have the same id.
select id, count(*) as times
from stg_chunks
group by id
having count(*) > 1

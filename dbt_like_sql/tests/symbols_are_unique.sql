-- No symbol or edge of the code graph exists twice.
select id, count(*) as times
from (select id from stg_symbols union all select id from stg_edges)
group by id
having count(*) > 1

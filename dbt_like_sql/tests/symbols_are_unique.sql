-- A symbol of the code graph is there once, and so is an edge.
select id, count(*) as times
from (select id from stg_symbols union all select id from stg_edges)
group by id
having count(*) > 1

-- Every question was logged once.
select query_id, count(*) as times
from stg_queries
group by query_id
having count(*) > 1

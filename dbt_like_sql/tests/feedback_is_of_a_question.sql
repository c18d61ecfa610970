-- Every judgement belongs to a logged question; the question may have been deleted before it.
-- severity: warn
select stg_feedback.judged_at, stg_feedback.query_id, stg_feedback.judgement
from stg_feedback
left join stg_queries on stg_queries.query_id = stg_feedback.query_id
where stg_queries.query_id is null

-- How many judgements the results of each question received.
-- grain: one row per question with a judgement
select
    query_id,
    count(*) filter (where judgement = 'clicked') as clicked,
    count(*) filter (where judgement = 'useful') as useful,
    count(*) filter (where judgement = 'useless') as useless
from stg_feedback
group by query_id

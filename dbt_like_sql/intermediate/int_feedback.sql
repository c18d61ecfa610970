-- Judgements of each question's results, counted.
-- grain: one row per question that got any
select
    query_id,
    count(*) filter (where judgement = 'clicked') as clicked,
    count(*) filter (where judgement = 'useful') as useful,
    count(*) filter (where judgement = 'useless') as useless
from stg_feedback
group by query_id

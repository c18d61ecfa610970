-- Documents that people judged as answers, the most useful first: golden questions to be reviewed.
-- answers: What do people find useful, and for which question?
-- grain: one row per question's text, search type and document
select
    stg_queries.text,
    stg_queries.type,
    stg_chunks.source || ':' || stg_chunks.uri as document, -- a `path` of golden questions
    count(*) filter (where stg_feedback.judgement = 'useful') as useful,
    count(*) filter (where stg_feedback.judgement = 'clicked') as clicked,
    count(*) filter (where stg_feedback.judgement = 'useless') as useless,
    max(stg_feedback.judged_at) as last_at
from stg_feedback
join stg_queries on stg_queries.query_id = stg_feedback.query_id
join stg_chunks on stg_chunks.id = stg_feedback.result_id -- as it is now: what is gone answers nothing
group by stg_queries.text, stg_queries.type, document
order by useful desc, clicked desc, useless, last_at desc

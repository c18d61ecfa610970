-- How often a search leads to something that its reader opened or found useful, release by release.
-- answers: Do people find what they look for, and did the last release change that?
-- grain: one row per release and search type
-- plot: line x=release y=relevant_share by=type
-- plot: line x=release y=mean_best_score by=type
select
    stg_queries.release,
    stg_queries.type,
    count(*) as questions,
    count(*) filter (where stg_queries.results = 0) as unanswered,
    count(int_feedback.query_id) as judged,
    count(*) filter (where int_feedback.clicked + int_feedback.useful > 0) as relevant,
    count(*) filter (where int_feedback.useless > int_feedback.clicked + int_feedback.useful) as useless,
    count(*) filter (where int_feedback.clicked + int_feedback.useful > 0)
        / count(*)::double as relevant_share, -- of all answers, judged or not
    count(*) filter (where int_feedback.clicked + int_feedback.useful > 0)
        / nullif(count(int_feedback.query_id), 0)::double as relevant_share_of_judged,
    avg(stg_queries.best_score) as mean_best_score
from stg_queries
left join int_feedback on int_feedback.query_id = stg_queries.query_id
where stg_queries.scores is not null -- searches alone
group by stg_queries.release, stg_queries.type
order by stg_queries.release, stg_queries.type

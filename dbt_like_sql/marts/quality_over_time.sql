-- How well each release answered the golden questions, evaluation by evaluation.
-- answers: Does search get better or worse?
-- grain: one row per evaluation and search type
-- plot: line x=evaluated_at y=ndcg_10 by=type
-- plot: line x=evaluated_at y=p50_ms by=type
select
    stg_evaluations.evaluated_at,
    stg_evaluations.type,
    stg_evaluations.golden, -- hash of the questions: only rows with the same hash compare
    min(stg_releases.release) as release, -- the first one with these tables; null where none was made
    max(stg_evaluations.value) filter (where stg_evaluations.metric = 'nDCG@10') as ndcg_10,
    max(stg_evaluations.value) filter (where stg_evaluations.metric = 'R@10') as recall_10,
    max(stg_evaluations.value) filter (where stg_evaluations.metric = 'RR@10') as mrr_10,
    max(stg_evaluations.value) filter (where stg_evaluations.metric = 'Success@1') as success_1,
    max(stg_evaluations.value) filter (where stg_evaluations.metric = 'Success@5') as success_5,
    max(stg_evaluations.value) filter (where stg_evaluations.metric = 'p50_ms') as p50_ms,
    max(stg_evaluations.value) filter (where stg_evaluations.metric = 'questions')::bigint as questions
from stg_evaluations
left join stg_releases on stg_releases.index_versions = stg_evaluations.index_versions
group by stg_evaluations.evaluated_at, stg_evaluations.type, stg_evaluations.golden
order by stg_evaluations.evaluated_at, stg_evaluations.type

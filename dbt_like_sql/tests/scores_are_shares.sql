-- Scores of retrieval are between 0 and 1.
select evaluated_at, type, metric, value
from stg_evaluations
where metric in ('nDCG@10', 'R@10', 'RR@10', 'Success@1', 'Success@5') and not value between 0 and 1

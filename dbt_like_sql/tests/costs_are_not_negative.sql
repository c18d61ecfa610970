-- No call of a model has negative cost, tokens or time.
select called_at, kind, provider, model, calls, tokens, cost, seconds
from stg_model_calls
where least(calls, tokens, cost, seconds) < 0

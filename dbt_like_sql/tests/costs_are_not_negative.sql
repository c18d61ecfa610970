-- No call of a model gives money, tokens or time back.
select called_at, kind, provider, model, calls, tokens, cost, seconds
from stg_model_calls
where least(calls, tokens, cost, seconds) < 0

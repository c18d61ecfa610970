-- Queries that were answered.
-- grain: one row per question
select
    query_id,
    "at" as asked_at,
    "at"::date as day, -- in UTC
    type, -- of the search: semantic, code, similar, historical, ...
    text, -- as it was asked, without secrets
    interface, -- it came by: cli, python, http, mcp, page
    token, -- id of the access token it came with
    tenant,
    release, -- that answered it
    results,
    took_ms,
    cached,
    len(degraded) > 0 as degraded, -- whether a step was left out
    scores, -- of its results, best first, in [0, 1]; null where something was looked up by its id
    scores[1] as best_score,
    vector_scores, -- of the same results, by meaning: cosines; null for what that search did not find
    vector_scores[1] as vector_score, -- of the best result
    text_scores, -- of the same results, by words: BM25; null for what that search did not find
    text_scores[1] as text_score, -- of the best result
    session, -- as the caller says
    project,
    on_behalf_of
from raw_queries

-- Scores of the golden questions.
-- grain: one row per metric and search type of an evaluation
select
    "at" as evaluated_at,
    golden, -- hash of the questions: only scores with the same hash compare
    type,
    metric,
    value,
    array_to_string(
        list_sort(list_transform(json_keys(tables), lambda space: space || ' ' || (tables ->> space))), ', '
    ) as index_versions -- each space with the version of its index table
from raw_evaluations

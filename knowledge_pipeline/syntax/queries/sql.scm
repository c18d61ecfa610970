; See python.scm for the meaning of captures.

(create_table (object_reference) @name) @table
[(create_view (object_reference) @name) (create_materialized_view (object_reference) @name)] @view
(create_function (object_reference) @name (function_body)? @body) @function
(create_trigger . (_) . (_) . (object_reference) @name) @trigger
(create_index column: (identifier) @name) @index
(create_type (object_reference) @name) @type

[(when_clause) (join)] @decision

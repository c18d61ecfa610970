; See python.scm for the meaning of captures.

(function_declaration name: (_) @name) @function
(assignment_statement
  (variable_list . name: [(identifier) (dot_index_expression)] @name .)
  (expression_list . value: (function_definition body: (_)? @body) .)) @function
(field name: (identifier) @name value: (function_definition body: (_)? @body)) @function

((variable_declaration (assignment_statement
  (variable_list . name: (identifier) @name .)
  (expression_list . value: (table_constructor) .))) @global)
((variable_declaration (assignment_statement
  (variable_list . name: (identifier) @name .))) @global
  (#match? @name "^_?[A-Z][A-Z0-9_]*$"))

((variable_declaration (assignment_statement (expression_list . value: [
  (function_call name: (identifier) @_require)
  (function_call name: (dot_index_expression table: (function_call name: (identifier) @_require)))
  (dot_index_expression table: (function_call name: (identifier) @_require))]))) @import
  (#eq? @_require "require"))
((function_call name: (identifier) @_require) @import (#any-of? @_require "require" "dofile"))

[(if_statement) (elseif_statement) (for_statement) (while_statement) (repeat_statement)] @decision
(binary_expression ["and" "or"] @decision)

; See python.scm for the meaning of captures.

(function_declaration name: (_) @name body: (_)? @body) @function
(test_declaration [(string) (identifier)] @name (block) @body) @function
(variable_declaration . (identifier) @name (struct_declaration) @body) @struct
(variable_declaration . (identifier) @name (union_declaration) @body) @struct
(variable_declaration . (identifier) @name (enum_declaration) @body) @enum
(variable_declaration . (identifier) @name (error_set_declaration) @body) @enum
((variable_declaration . (identifier) @name) @global
  (#match? @global "^(pub\\s+)?(export\\s+)?(const|var)\\b") (#not-match? @global "^[^=]*=\\s*@import\\b"))

((variable_declaration (builtin_function (builtin_identifier) @_builtin)) @import (#eq? @_builtin "@import"))
((variable_declaration (field_expression (builtin_function (builtin_identifier) @_builtin))) @import
  (#eq? @_builtin "@import"))

[(if_statement) (if_expression) (for_statement) (while_statement) (switch_case) (catch_expression)] @decision
(binary_expression operator: ["and" "or" "orelse"]) @decision

; See python.scm for the meaning of captures.

(function_statement (function_name) @name (script_block) @body) @function
(class_statement . (simple_name) @name) @class
(class_statement . (simple_name) . (simple_name) @base)
(enum_statement . (simple_name) @name) @enum
(class_method_definition (simple_name) @name (script_block) @body) @function

((command command_name: (_) @_name) @import (#match? @_name "^(?i:using|import-module)$"))
((command (command_invokation_operator) @_operator) @import (#eq? @_operator "."))

[(if_statement) (elseif_clause) (for_statement) (foreach_statement) (while_statement) (do_statement)
 (switch_clause) (catch_clause)] @decision
(logical_expression ["-and" "-or"] @decision)

; Shared by JavaScript, TypeScript and TSX. See python.scm for the meaning of captures.

[(function_declaration) (generator_function_declaration)] @function
(class_declaration) @class
(method_definition) @method
(variable_declarator value: [(arrow_function) (function_expression) (generator_function)]) @function
(variable_declarator value: (class)) @class
(assignment_expression left: (member_expression)
  right: [(arrow_function) (function_expression) (generator_function)]) @function
(pair value: [(arrow_function) (function_expression) (generator_function)]) @method
(export_statement value: [(arrow_function) (function_expression) (generator_function)] @function)
(export_statement value: (class) @class)
(lexical_declaration (variable_declarator name: (identifier) @_name) @constant
  (#match? @_name "^[A-Z][A-Z0-9_]*$"))

(class_heritage) @base

(import_statement) @import
(export_statement source: (string)) @import
([(lexical_declaration (variable_declarator value: (call_expression function: (identifier) @_call)))
  (variable_declaration (variable_declarator value: (call_expression function: (identifier) @_call)))
  (expression_statement (call_expression function: (identifier) @_call))] @import
  (#eq? @_call "require"))

(export_specifier name: (_) @export)
(assignment_expression left: (member_expression object: (identifier) @_module) right: (object) @export
  (#eq? @_module "module"))

[(if_statement) (for_statement) (for_in_statement) (while_statement) (do_statement) (switch_case)
 (catch_clause) (ternary_expression)] @decision
(binary_expression operator: ["&&" "||" "??"]) @decision

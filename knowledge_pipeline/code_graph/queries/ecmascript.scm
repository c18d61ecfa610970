; Shared by JavaScript, TypeScript and TSX. What captures mean is told in python.scm; those of
; its own are handled in code_graph/languages/ecmascript.py and the modules that it imports.

(call_expression) @call @invoked
(new_expression) @call @made
(identifier) @name
(shorthand_property_identifier) @name
(this) @name
(super) @name
(member_expression) @chain

(variable_declarator name: (identifier) @skip)
(function_declaration name: (identifier) @skip)
(generator_function_declaration name: (identifier) @skip)
(function_expression name: (identifier) @skip)
(generator_function name: (identifier) @skip)
(arrow_function parameter: (identifier) @skip)
(rest_pattern (identifier) @skip)
(array_pattern (identifier) @skip)
(pair_pattern value: (identifier) @skip)
(assignment_pattern left: (identifier) @skip)
(catch_clause parameter: (identifier) @skip)
(for_in_statement kind: _ left: (identifier) @skip)
(import_statement) @skip.all @import
(export_clause) @skip.all
(namespace_export) @skip.all

(call_expression function: (super)) @super
(export_statement) @export
(variable_declarator) @variable
(assignment_expression) @assignment
(augmented_assignment_expression) @assignment
(for_in_statement) @loop
(return_statement) @return
(yield_expression) @yield
(decorator) @decorator
(class_heritage) @heritage
[(function_declaration) (generator_function_declaration) (function_expression) (generator_function)
 (arrow_function) (method_definition)] @function

(program [(lexical_declaration (variable_declarator) @global)
          (variable_declaration (variable_declarator) @global)
          (export_statement [(lexical_declaration (variable_declarator) @global)
                             (variable_declaration (variable_declarator) @global)])])

; For implementations and interfaces. See python.scm for the meaning of captures.

(let_binding pattern: (value_name) @name . (parameter) body: (_) @body) @function
(let_binding pattern: (value_name) @name body: [(fun_expression) (function_expression)] @body) @function
(let_binding pattern: (value_name) @name) @global
(value_specification (value_name) @name type: (function_type)) @function
(value_specification (value_name) @name) @global
(external (value_name) @name) @function
(module_binding (module_name) @name body: (_)? @body module_type: (_)? @body) @module
(module_type_definition (module_type_name) @name body: (_)? @body) @interface
(type_binding name: (_) @name) @type
(exception_definition (constructor_declaration (constructor_name) @name)) @type
(class_binding (class_name) @name body: (_)? @body) @class
(method_definition (method_name) @name body: (_)? @body) @function

[(open_module) (include_module)] @import

[(if_expression) (match_case) (for_expression) (while_expression)] @decision
(infix_expression operator: [(and_operator) (or_operator)]) @decision

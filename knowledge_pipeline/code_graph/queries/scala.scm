; See python.scm for the meaning of captures.

[(call_expression) (instance_expression) (infix_expression)] @call
[(identifier) (type_identifier)] @name
[(field_expression) (stable_type_identifier) (generic_type) (stable_identifier)] @chain
(field_expression field: (_) @skip)
(stable_type_identifier (_) (type_identifier) @skip)
(stable_identifier (_) (identifier) @skip)
[(class_definition name: (_) @skip) (object_definition name: (_) @skip) (trait_definition name: (_) @skip)
 (enum_definition name: (_) @skip) (package_object name: (_) @skip) (type_definition name: (_) @skip)
 (function_definition name: (_) @skip) (function_declaration name: (_) @skip) (given_definition name: (_) @skip)
 (class_parameter name: (_) @skip) (parameter name: (_) @skip) (binding name: (_) @skip)
 (val_definition pattern: (identifier) @skip) (var_definition pattern: (identifier) @skip)
 (val_declaration name: (_) @skip) (var_declaration name: (_) @skip) (type_parameters name: (_) @skip)
 (simple_enum_case name: (_) @skip) (full_enum_case name: (_) @skip) (lambda_expression parameters: (identifier) @skip)
 (typed_pattern pattern: (identifier) @skip) (enumerator . (identifier) @skip)
 (tuple_pattern (identifier) @skip) (arguments (assignment_expression left: (identifier) @skip))]

(package_clause) @skip.all @package
(import_declaration) @skip.all @import
(extends_clause) @bases
(type_definition) @alias
(type_parameters) @type.parameters
[(function_definition) (function_declaration)] @function
[(val_definition) (var_definition) (val_declaration) (var_declaration)] @value
(class_parameters) @class.parameters
(parameters) @parameters
(lambda_expression) @lambda
[(simple_enum_case) (full_enum_case)] @enum.case
(enumerator) @enumerator
(typed_pattern) @pattern

; See python.scm for the meaning of captures.

[(call_expression) (type_conversion_expression)] @call
[(identifier) (type_identifier) (package_identifier)] @name
[(selector_expression) (qualified_type)] @chain
(qualified_type name: (_) @skip)
[(function_declaration name: (_) @skip) (type_spec name: (_) @skip) (type_alias name: (_) @skip)
 (const_spec name: (_) @skip) (var_spec name: (_) @skip) (parameter_declaration name: (_) @skip)
 (variadic_parameter_declaration name: (_) @skip) (type_parameter_declaration name: (_) @skip)
 (short_var_declaration left: (expression_list (identifier) @skip))
 (type_switch_statement alias: (expression_list (identifier) @skip))]

(package_clause) @skip.all @package
(import_spec) @skip.all @import
[(type_spec) (type_alias)] @type
(field_declaration) @field
(interface_type (type_elem . (_) @embedded .))
[(function_declaration) (method_declaration) (method_elem)] @function
[(parameter_declaration) (variadic_parameter_declaration)] @parameter
(type_parameter_declaration) @type.parameter
(var_spec) @variable
(const_declaration) @constants
[(short_var_declaration) (assignment_statement)] @assignment
(range_clause) @range
(type_switch_statement) @switch
(receive_statement) @receive
(keyed_element) @keyed

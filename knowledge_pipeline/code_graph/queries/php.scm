; See python.scm for the meaning of captures.

[(function_call_expression) (member_call_expression) (nullsafe_member_call_expression)
 (scoped_call_expression)] @call
(named_type [(name) (qualified_name)] @name)
(class_constant_access_expression . (_) @name) @chain
[(member_access_expression object: (variable_name) @name) (nullsafe_member_access_expression object: (variable_name) @name)] @chain
(scoped_property_access_expression scope: (_) @name) @chain
(binary_expression operator: "instanceof" right: [(name) (qualified_name)] @name)

(namespace_definition) @skip.all @namespace
(namespace_use_declaration) @skip.all @import
[(require_expression) (require_once_expression) (include_expression) (include_once_expression)] @require
[(base_clause) (class_interface_clause) (use_declaration)] @skip.all @bases
[(function_definition) (method_declaration)] @function
(property_declaration) @field
(property_promotion_parameter) @field
(const_element) @constant
(enum_case) @constant
[(simple_parameter) (variadic_parameter) (property_promotion_parameter)] @parameter
(catch_clause) @caught
(assignment_expression) @assignment
(foreach_statement) @loop
(object_creation_expression) @new
(return_statement) @return

; See python.scm for the meaning of captures.

[(call_expression) (constructor_expression)] @call
[(simple_identifier) (type_identifier) (self_expression) (super_expression)] @name
[(navigation_expression) (user_type)] @chain
(navigation_suffix (simple_identifier) @skip)
(user_type (type_identifier) (type_identifier) @skip)
[(value_argument_label (simple_identifier) @skip) (parameter external_name: (simple_identifier) @skip)
 (parameter name: (simple_identifier) @skip) (lambda_parameter name: (simple_identifier) @skip)
 (function_declaration name: (simple_identifier) @skip) (enum_entry name: (simple_identifier) @skip)
 (protocol_function_declaration name: (simple_identifier) @skip) (type_parameter . (type_identifier) @skip)
 (class_declaration name: (_) @skip) (protocol_declaration name: (_) @skip)
 (typealias_declaration name: (type_identifier) @skip) (pattern bound_identifier: (_) @skip)
 (associatedtype_declaration name: (type_identifier) @skip) (enum_type_parameters (simple_identifier) @skip)
 (prefix_expression operation: "." target: (simple_identifier) @skip)
 (tuple_type_item name: (simple_identifier) @skip)]
(call_suffix name: (simple_identifier) @skip)
(if_statement bound_identifier: (_) @skip)
(guard_statement bound_identifier: (_) @skip)
(while_statement bound_identifier: (_) @skip)

[(directive) (capture_list) (availability_condition) (value_binding_pattern)] @skip.all
(import_declaration) @skip.all @import
(inheritance_specifier) @base
(typealias_declaration) @alias
[(type_parameter) (inheritance_constraint) (associatedtype_declaration)] @bound
[(function_declaration) (protocol_function_declaration) (init_declaration) (deinit_declaration)
 (subscript_declaration)] @function
(property_declaration) @property
(protocol_property_declaration) @requirement
(enum_entry) @entry
(lambda_literal) @lambda
(prefix_expression operation: "." target: (simple_identifier)) @implicit
(for_statement) @loop
[(if_statement) (guard_statement) (while_statement)] @conditions
(switch_statement) @switch
(catch_block) @catch
(attribute (user_type) @attribute)

; See python.scm for the meaning of captures.

[(method_invocation) (object_creation_expression)] @call
[(identifier) (type_identifier)] @name
[(field_access) (scoped_type_identifier) (generic_type) (scoped_identifier)] @chain
(field_access object: [(this) (super)] @name)
(field_access field: (_) @skip)
(scoped_type_identifier (_) (type_identifier) @skip)
(scoped_identifier name: (identifier) @skip)
(element_value_pair key: (identifier) @skip)
(labeled_statement . (identifier) @skip)
[(break_statement (identifier) @skip) (continue_statement (identifier) @skip)]
[(class_declaration name: (_) @skip) (interface_declaration name: (_) @skip) (enum_declaration name: (_) @skip)
 (annotation_type_declaration name: (_) @skip) (method_declaration name: (_) @skip)
 (constructor_declaration name: (_) @skip) (compact_constructor_declaration name: (_) @skip)
 (record_declaration name: (_) @skip) (annotation_type_element_declaration name: (_) @skip)
 (enum_constant name: (_) @skip) (variable_declarator name: (_) @skip) (formal_parameter name: (_) @skip)
 (catch_formal_parameter name: (_) @skip) (enhanced_for_statement name: (_) @skip) (resource name: (_) @skip)
 (instanceof_expression name: (_) @skip) (lambda_expression parameters: (identifier) @skip)
 (inferred_parameters (identifier) @skip) (type_parameter . (type_identifier) @skip)
 (method_reference (_) (identifier) @skip)]

(package_declaration) @skip.all @package
(import_declaration) @skip.all @import
[(superclass) (super_interfaces) (extends_interfaces)] @bases
(type_parameter) @type.parameter
[(method_declaration) (annotation_type_element_declaration)] @method
[(field_declaration) (constant_declaration)] @field
(local_variable_declaration) @local
(enum_constant) @enum.constant
(record_declaration) @record
[(formal_parameter) (spread_parameter) (catch_formal_parameter)] @parameter
(lambda_expression) @lambda
(enhanced_for_statement) @loop
(resource) @resource
(instanceof_expression) @check
[(type_pattern) (record_pattern_component)] @pattern
(method_reference) @method.reference
(explicit_constructor_invocation) @constructed

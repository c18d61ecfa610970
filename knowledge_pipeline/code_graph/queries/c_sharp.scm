; See python.scm for the meaning of captures.

[(invocation_expression) (object_creation_expression)] @call
(identifier) @name
[(member_access_expression) (qualified_name) (generic_name) (conditional_access_expression)] @chain
(member_access_expression expression: ["this" "base"] @name)
(member_access_expression name: (_) @skip)
(member_binding_expression name: (_) @skip)
(qualified_name name: (_) @skip)
(alias_qualified_name alias: (_) @skip)
[(class_declaration name: (_) @skip) (record_declaration name: (_) @skip) (struct_declaration name: (_) @skip)
 (interface_declaration name: (_) @skip) (enum_declaration name: (_) @skip) (delegate_declaration name: (_) @skip)
 (method_declaration name: (_) @skip) (constructor_declaration name: (_) @skip)
 (destructor_declaration name: (_) @skip) (property_declaration name: (_) @skip)
 (local_function_statement name: (_) @skip) (variable_declarator name: (_) @skip) (parameter name: (_) @skip)
 (type_parameter name: (_) @skip) (enum_member_declaration name: (_) @skip) (foreach_statement left: (_) @skip)
 (declaration_pattern name: (_) @skip) (declaration_expression name: (_) @skip) (catch_declaration name: (_) @skip)
 (tuple_pattern name: (identifier) @skip) (recursive_pattern name: (_) @skip) (labeled_statement . (identifier) @skip)
 (goto_statement (identifier) @skip) (argument name: (_) @skip) (attribute_argument name: (_) @skip)]
(namespace_declaration name: (_) @skip.all)
(file_scoped_namespace_declaration name: (_) @skip.all)

[(namespace_declaration) (file_scoped_namespace_declaration)] @namespace
(using_directive) @skip.all @using
(base_list) @bases
(type_parameter) @type.parameter
(type_parameter_constraints_clause) @constraint
[(method_declaration) (local_function_statement) (delegate_declaration) (operator_declaration)] @method
[(property_declaration) (indexer_declaration)] @property
[(field_declaration) (event_field_declaration)] @field
[(local_declaration_statement) (using_statement) (for_statement)] @local
(enum_member_declaration) @enum.member
[(parameter_list) (bracketed_parameter_list)] @parameters
(lambda_expression) @lambda
(foreach_statement) @loop
[(declaration_pattern) (declaration_expression) (catch_declaration) (recursive_pattern)] @pattern
(attribute) @attribute
(constructor_initializer) @constructed
[(initializer_expression) (with_initializer)] @initializer

; What TypeScript adds to ecmascript.scm.

(type_identifier) @name @typename
(nested_type_identifier) @chain
(nested_type_identifier name: (type_identifier) @skip)

(class_declaration name: (type_identifier) @skip)
(abstract_class_declaration name: (type_identifier) @skip)
(class name: (type_identifier) @skip)
(interface_declaration name: (type_identifier) @skip)
(type_alias_declaration name: (type_identifier) @skip)
(enum_declaration name: (identifier) @skip)
(internal_module name: (_) @skip)
(module name: (_) @skip)
(function_signature name: (identifier) @skip)
(type_parameter name: (type_identifier) @skip)
(mapped_type_clause name: (type_identifier) @skip)
(infer_type (type_identifier) @skip)
(index_signature name: (identifier) @skip)
(required_parameter pattern: [(identifier) (this)] @skip)
(optional_parameter pattern: [(identifier) (this)] @skip)
(type_predicate name: (identifier) @skip)
(import_alias) @skip.all @import

[(function_signature) (method_signature) (abstract_method_signature)] @function
(public_field_definition) @field
(interface_body (property_signature) @property)
(type_alias_declaration value: (object_type (property_signature) @property))
(type_alias_declaration value: (intersection_type (object_type (property_signature) @property)))
(enum_body [(property_identifier) (string)] @member)
(enum_assignment name: (_) @member)
(type_alias_declaration) @alias
(interface_body (call_signature) @signature)
(type_parameter) @parameter
(extends_type_clause) @heritage

(ambient_declaration [(lexical_declaration (variable_declarator) @global)
                      (variable_declaration (variable_declarator) @global)])
(internal_module (statement_block
  [(lexical_declaration (variable_declarator) @global)
   (variable_declaration (variable_declarator) @global)
   (export_statement [(lexical_declaration (variable_declarator) @global)
                      (variable_declaration (variable_declarator) @global)])]))
(module (statement_block
  [(lexical_declaration (variable_declarator) @global)
   (variable_declaration (variable_declarator) @global)
   (export_statement [(lexical_declaration (variable_declarator) @global)
                      (variable_declaration (variable_declarator) @global)])]))

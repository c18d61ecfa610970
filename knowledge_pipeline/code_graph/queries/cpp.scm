; What C++ adds to c.scm.

(new_expression) @call
[(this) (namespace_identifier)] @name
[(qualified_identifier) (template_function) (template_type)] @chain
(qualified_identifier name: (_) @skip)
[(class_specifier name: (_) @skip body: (_)) (namespace_definition name: (_) @skip) (reference_declarator (identifier) @skip)
 (alias_declaration name: (_) @skip) (for_range_loop declarator: (identifier) @skip)
 (type_parameter_declaration (type_identifier) @skip) (namespace_alias_definition name: (_) @skip)
 (nested_namespace_specifier (_) @skip) (optional_parameter_declaration declarator: (identifier) @skip)]

(using_declaration) @skip.all
(namespace_definition) @namespace
(namespace_alias_definition) @namespace.alias
(base_class_clause) @bases
(alias_declaration) @alias
(for_range_loop) @loop
(optional_parameter_declaration) @parameter

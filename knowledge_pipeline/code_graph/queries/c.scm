; Shared by C and C++. See python.scm for the meaning of captures.

(call_expression) @call
[(identifier) (type_identifier)] @name
(field_expression) @chain
[(function_declarator declarator: (_) @skip) (init_declarator declarator: (identifier) @skip)
 (declaration declarator: (identifier) @skip) (parameter_declaration declarator: (identifier) @skip)
 (pointer_declarator declarator: (_) @skip) (array_declarator declarator: (_) @skip) (enumerator name: (_) @skip)
 (struct_specifier name: (type_identifier) @skip body: (_)) (enum_specifier name: (type_identifier) @skip body: (_))
 (union_specifier name: (type_identifier) @skip body: (_)) (preproc_def name: (_) @skip)
 (preproc_function_def name: (_) @skip) (type_definition declarator: (_) @skip) (preproc_ifdef name: (_) @skip)
 (preproc_params (identifier) @skip)]

(preproc_include) @skip.all @include
(function_definition) @function
(type_definition) @typedef
(field_declaration) @field
(enumerator) @enumerator
(parameter_declaration) @parameter
(declaration) @declaration
(assignment_expression) @assignment

; Shared by C and C++. See python.scm for the meaning of captures.

(function_definition) @function
(type_definition type: [(struct_specifier body: (_)) (union_specifier body: (_))]) @struct
(type_definition type: (enum_specifier body: (_))) @enum
[(struct_specifier name: (_) body: (_)) (union_specifier name: (_) body: (_))] @struct
(enum_specifier name: (_) body: (_)) @enum
(preproc_function_def) @macro
(preproc_def value: (_)) @constant

(preproc_include) @import

[(if_statement) (for_statement) (while_statement) (do_statement) (conditional_expression)] @decision
(case_statement value: (_)) @decision
(binary_expression operator: ["&&" "||"]) @decision

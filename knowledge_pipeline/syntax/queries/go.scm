; See python.scm for the meaning of captures.

(function_declaration) @function
(method_declaration) @method
(type_spec type: (struct_type)) @struct
(type_spec type: (interface_type)) @interface
(type_spec type: [(function_type) (type_identifier) (qualified_type) (map_type) (slice_type) (pointer_type)
  (array_type) (channel_type) (generic_type)]) @type
(type_alias) @type
(const_spec) @constant
(method_elem) @method

(field_declaration !name type: (_) @base)
(interface_type (type_elem) @base)

(import_declaration) @import

[(if_statement) (for_statement) (expression_case) (type_case) (communication_case)] @decision
(binary_expression operator: ["&&" "||"]) @decision

; See python.scm for the meaning of captures.

[(function_item) (function_signature_item)] @function
(struct_item) @struct
(union_item) @struct
(enum_item) @enum
(trait_item) @trait
(impl_item) @impl
(mod_item) @module
(macro_definition) @macro
(type_item) @type
[(const_item) (static_item)] @constant

(impl_item trait: (_) @base)
(trait_item bounds: (trait_bounds) @base)

[(use_declaration) (extern_crate_declaration)] @import

[(if_expression) (for_expression) (while_expression) (loop_expression) (match_arm) (try_expression)] @decision
(binary_expression operator: ["&&" "||"]) @decision

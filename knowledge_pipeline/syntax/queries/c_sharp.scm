; See python.scm for the meaning of captures.

[(class_declaration) (record_declaration)] @class
(struct_declaration) @struct
(interface_declaration) @interface
(enum_declaration) @enum
(namespace_declaration) @module
(delegate_declaration) @type
[(method_declaration) (constructor_declaration) (destructor_declaration) (operator_declaration)
 (conversion_operator_declaration)] @method
(local_function_statement) @function
[(property_declaration) (indexer_declaration)] @property

(base_list) @base

(using_directive) @import

[(if_statement) (for_statement) (foreach_statement) (while_statement) (do_statement) (catch_clause)
 (conditional_expression) (switch_expression_arm)] @decision
(switch_section . "case") @decision
(binary_expression operator: ["&&" "||" "??"]) @decision

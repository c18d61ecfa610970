; See python.scm for the meaning of captures.

(class_declaration) @class
(interface_declaration) @interface
(trait_declaration) @trait
(enum_declaration) @enum
(namespace_definition body: (_)) @module
(function_definition) @function
(method_declaration) @method
(const_element) @constant

[(base_clause) (class_interface_clause)] @base

[(namespace_use_declaration) (expression_statement
  [(require_expression) (require_once_expression) (include_expression) (include_once_expression)])] @import

[(if_statement) (else_if_clause) (for_statement) (foreach_statement) (while_statement) (do_statement)
 (case_statement) (catch_clause) (conditional_expression) (match_conditional_expression)] @decision
(binary_expression operator: ["&&" "||" "and" "or" "??"]) @decision

; See python.scm for the meaning of captures.

(class_declaration) @class
(protocol_declaration) @interface
[(function_declaration) (protocol_function_declaration)] @function
[(init_declaration) (deinit_declaration) (subscript_declaration)] @method
(typealias_declaration) @type
(property_declaration computed_value: (_)) @property
(property_declaration !computed_value) @global

(inheritance_specifier) @base

(import_declaration) @import

[(if_statement) (guard_statement) (for_statement) (while_statement) (repeat_while_statement) (switch_entry)
 (catch_block) (ternary_expression) (conjunction_expression) (disjunction_expression)
 (nil_coalescing_expression)] @decision

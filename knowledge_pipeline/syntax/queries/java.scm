; See python.scm for the meaning of captures.

[(class_declaration) (record_declaration)] @class
[(interface_declaration) (annotation_type_declaration)] @interface
(enum_declaration) @enum
[(method_declaration) (constructor_declaration) (compact_constructor_declaration)] @method

[(superclass) (super_interfaces) (extends_interfaces)] @base

(import_declaration) @import

[(if_statement) (for_statement) (enhanced_for_statement) (while_statement) (do_statement) (catch_clause)
 (ternary_expression)] @decision
(switch_label . "case") @decision
(binary_expression operator: ["&&" "||"]) @decision

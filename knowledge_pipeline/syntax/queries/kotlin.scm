; See python.scm for the meaning of captures.

(class_declaration) @class
[(object_declaration) (companion_object)] @object
(function_declaration) @function
(secondary_constructor) @method
(type_alias) @type
(property_declaration (modifiers) @_modifiers (#match? @_modifiers "const")) @constant
(property_declaration (getter)) @property

(delegation_specifiers) @base

(import) @import

[(if_expression) (for_statement) (while_statement) (do_while_statement) (when_entry) (catch_block)] @decision
(binary_expression operator: ["&&" "||" "?:"]) @decision

; See python.scm for the meaning of captures.

(class_definition) @class
(object_definition) @object
(trait_definition) @trait
(enum_definition) @enum
(package_object) @object
[(function_definition) (function_declaration)] @function
(given_definition) @object
(extension_definition) @extension
(type_definition) @type

(extends_clause) @base

(import_declaration) @import

[(if_expression) (for_expression) (while_expression) (do_while_expression) (case_clause) (catch_clause)] @decision
(infix_expression operator: (operator_identifier) @_operator (#any-of? @_operator "&&" "||")) @decision

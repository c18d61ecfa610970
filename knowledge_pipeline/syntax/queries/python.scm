; Captures: a definition under its kind, in the same pattern its @name (parts of it, joined by dots) and
; @body where its fields do not say them, @attribute (belongs to what follows, as a comment does), @base (what a type extends), @import,
; @export (a name, or names, made public by a list), @decision (a branch that counts for complexity).
; What starts with _ is for predicates alone. A constant counts unless it is within a function,
; a global unless it is within a function or a type.
; No pattern starts at the root, or at another node that can have very many children: the time
; that tree-sitter takes for such a pattern grows with the square of their number.

(function_definition) @function
(class_definition) @class
(assignment left: (identifier) @_name (#match? @_name "^_?[A-Z][A-Z0-9_]*$")) @constant
(type_alias_statement) @type

(class_definition superclasses: (argument_list) @base)

[(import_statement) (import_from_statement) (future_import_statement)] @import

(assignment left: (identifier) @_all right: (_) @export (#eq? @_all "__all__"))

[(if_statement) (elif_clause) (for_statement) (while_statement) (except_clause) (case_clause)
 (conditional_expression) (boolean_operator) (for_in_clause) (if_clause)] @decision

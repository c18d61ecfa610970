; Captures, the same in every language:
;   @call      an expression that calls something
;   @name      an identifier, @chain one with what is taken from it: the longest that starts with
;              a name is what is referred to
;   @skip      a name that refers to nothing: a key, a label
;   @skip.all  everything within it refers to nothing
; All others are handled by the language's own functions (graph/languages/python_facts.py).
; Definitions come from the queries of `syntax`. No predicates: see `syntax.grammars.find`. What a
; pattern looks at in a node comes first in it: one that waits for what follows an expression takes
; time that grows with the square of how deep expressions lie in each other.

(call) @call
(identifier) @name
(attribute) @chain
(keyword_argument name: (identifier) @skip)
(function_definition name: (identifier) @skip) @def
(class_definition name: (identifier) @skip) @type
(keyword_pattern (identifier) @skip)
(import_statement) @skip.all @import
(import_from_statement) @skip.all @from
(future_import_statement) @skip.all
(global_statement) @skip.all @outer
(nonlocal_statement) @skip.all @outer

(decorator) @decorator
(assignment) @assignment
(named_expression) @assignment
(for_statement) @loop
(for_in_clause) @loop
(as_pattern) @alias
(lambda_parameters) @lambda
(return_statement) @return
(yield) @yield
(string) @string

; See python.scm for the meaning of captures.

(class) @class
(module) @module
[(method) (singleton_method)] @function
(assignment left: (constant)) @constant

(superclass) @base

(call method: (identifier) @_require (#match? @_require "^(require|require_relative|load)$")) @import

[(if) (elsif) (unless) (while) (until) (for) (when) (in_clause) (rescue) (conditional) (if_modifier)
 (unless_modifier) (while_modifier) (until_modifier) (rescue_modifier)] @decision
(binary operator: ["&&" "||" "and" "or"]) @decision

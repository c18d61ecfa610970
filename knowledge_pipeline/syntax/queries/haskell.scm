; See python.scm for the meaning of captures.

(data_type name: (_) @name) @type
(newtype name: (_) @name) @type
(type_synonym name: (_) @name) @type
(class name: (_) @name declarations: (_)? @body) @class
(instance name: (_) @base patterns: (_) @name declarations: (_)? @body) @impl
(function name: (_) @name match: (_) @body) @function
(bind name: (_) @name) @global

(signature) @attribute

(import) @import

[(conditional) (alternative) (guards) (multi_way_if) (generator)] @decision
(infix operator: (operator) @_operator (#any-of? @_operator "&&" "||")) @decision

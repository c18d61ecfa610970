; What C++ adds to c.scm.

(class_specifier name: (_) body: (_)) @class
(namespace_definition) @module
(concept_definition) @type
(alias_declaration) @type

(base_class_clause) @base

(using_declaration) @import

[(for_range_loop) (catch_clause)] @decision

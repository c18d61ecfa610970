; What TypeScript adds to ecmascript.scm.

(abstract_class_declaration) @class
(interface_declaration) @interface
(enum_declaration) @enum
(type_alias_declaration) @type
[(internal_module) (module)] @module
(function_signature) @function
[(method_signature) (abstract_method_signature)] @method
(public_field_definition value: [(arrow_function) (function_expression)]) @method

(extends_type_clause) @base

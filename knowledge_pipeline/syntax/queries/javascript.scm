; What JavaScript's grammar names differently from TypeScript's.

(field_definition value: [(arrow_function) (function_expression)]) @method

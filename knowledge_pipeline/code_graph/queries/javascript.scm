; What JavaScript's grammar names differently from TypeScript's, and JSX.

(class_declaration name: (identifier) @skip)
(class name: (identifier) @skip)
(formal_parameters (identifier) @skip)
(field_definition) @field
[(jsx_opening_element) (jsx_self_closing_element)] @element
(jsx_closing_element) @skip.all

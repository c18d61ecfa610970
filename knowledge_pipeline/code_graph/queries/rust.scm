; See python.scm for the meaning of captures.

(call_expression) @call
[(identifier) (type_identifier) (self) (crate) (super) (shorthand_field_identifier)] @name
[(field_expression) (scoped_identifier) (scoped_type_identifier) (generic_type) (generic_function)] @chain
(scoped_identifier name: (_) @skip)
(scoped_type_identifier name: (_) @skip)
(self_parameter) @skip.all
[(function_item name: (_) @skip) (function_signature_item name: (_) @skip) (struct_item name: (_) @skip)
 (enum_item name: (_) @skip) (union_item name: (_) @skip) (trait_item name: (_) @skip) (mod_item name: (_) @skip)
 (macro_definition name: (_) @skip) (type_item name: (_) @skip) (const_item name: (_) @skip)
 (static_item name: (_) @skip) (enum_variant name: (_) @skip) (type_parameter name: (_) @skip)
 (associated_type name: (_) @skip) (let_declaration pattern: (identifier) @skip)
 (parameter pattern: (identifier) @skip) (for_expression pattern: (identifier) @skip)
 (closure_parameters (identifier) @skip) (lifetime (identifier) @skip) (label (identifier) @skip)
 (type_binding name: (_) @skip) (field_pattern name: (_) @skip)]
[(attribute_item) (inner_attribute_item) (token_tree) (macro_definition) (visibility_modifier)] @skip.all

[(use_declaration) (extern_crate_declaration)] @skip.all @import
(mod_item) @module
(impl_item) @impl
(trait_item) @trait
[(function_item) (function_signature_item)] @function
[(type_parameter) (where_predicate)] @bound
(field_declaration) @field
(enum_variant) @variant
[(const_item) (static_item)] @constant
(type_item) @alias
(parameter) @parameter
(closure_expression) @closure
(let_declaration) @let
(let_condition) @let
(for_expression) @loop
(match_expression) @match
(struct_expression) @literal
(macro_invocation) @macro
(token_tree) @tokens
[(scoped_identifier path: (identifier) @crate) (scoped_type_identifier path: (identifier) @crate)]
(macro_definition) @macro.definition

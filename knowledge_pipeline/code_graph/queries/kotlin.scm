; See python.scm for the meaning of captures.

[(call_expression) (infix_expression)] @call
(identifier) @name
[(navigation_expression) (user_type)] @chain
(navigation_expression . [(this_expression) (super_expression)] @name)
(navigation_expression (_) (identifier) @skip)
(user_type (identifier) (identifier) @skip)
[(class_declaration name: (_) @skip) (object_declaration name: (_) @skip) (companion_object name: (_) @skip)
 (function_declaration name: (_) @skip) (type_alias type: (_) @skip) (variable_declaration . (identifier) @skip)
 (parameter . (identifier) @skip) (type_parameter . (identifier) @skip) (enum_entry . (identifier) @skip)
 (catch_block . (identifier) @skip) (setter . (identifier) @skip) (labeled_expression (identifier) @skip)
 (this_expression (identifier) @skip) (value_argument (identifier) @skip "=")]
(class_parameter (identifier) @skip)

(package_header) @skip.all @package
(import) @skip.all @import
(delegation_specifier) @base
(type_alias) @alias
(type_parameter) @type.parameter
(function_declaration) @function
(property_declaration) @property
(class_parameter) @class.parameter
(enum_entry) @enum.entry
(function_value_parameters) @parameters
(lambda_literal) @lambda
(for_statement) @loop
(catch_block) @catch
[(is_expression) (when_expression)] @check
(when_subject) @subject

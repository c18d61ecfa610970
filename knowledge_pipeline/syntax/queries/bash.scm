; See python.scm for the meaning of captures.

(function_definition) @function
((declaration_command (variable_assignment) @constant) @_declaration
  (#match? @_declaration "^(readonly|declare -r)"))

(command name: (command_name) @_source (#any-of? @_source "source" ".")) @import

[(if_statement) (elif_clause) (for_statement) (c_style_for_statement) (while_statement) (case_item)] @decision
(list ["&&" "||"] @decision)
(binary_expression operator: ["&&" "||"]) @decision

; See python.scm for the meaning of captures.

(command) @command
(function_definition) @function
(variable_assignment) @variable
[(simple_expansion (variable_name) @expanded) (expansion (variable_name) @expanded)]

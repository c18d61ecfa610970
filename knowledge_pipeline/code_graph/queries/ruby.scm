; See python.scm for the meaning of captures.

[(constant) (scope_resolution)] @name
(scope_resolution) @chain
(scope_resolution name: (_) @skip)
[(class name: (_) @skip) (module name: (_) @skip) (assignment left: (constant) @skip)]

(superclass) @skip.all @superclass
[(method) (singleton_method)] @method
(assignment) @assignment
(operator_assignment) @assignment
(call) @sent
(method_parameters) @parameters
(return) @return
(body_statement (identifier) @alone)

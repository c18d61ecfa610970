; For HCL and Terraform: the labels of a block are its name. See python.scm for the meaning of captures.

(block [(identifier) (string_lit)] @name) @block

[(conditional) (for_expr)] @decision

; See python.scm for the meaning of captures.

(call target: (identifier) @_keyword (arguments . (alias) @name) (do_block) @body
  (#any-of? @_keyword "defmodule" "defprotocol")) @module
(call target: (identifier) @_keyword
  (arguments . (alias) @base (keywords (pair value: (alias) @name))) (do_block) @body
  (#eq? @_keyword "defimpl")) @impl
(call target: (identifier) @_keyword
  (arguments . [
    (identifier) @name
    (call target: (identifier) @name)
    (binary_operator left: (call target: (identifier) @name) operator: "when")
    (binary_operator left: (identifier) @name operator: "when")])
  (do_block)? @body
  (#any-of? @_keyword "def" "defp" "defmacro" "defmacrop" "defguard" "defguardp" "defdelegate")) @function

(unary_operator operator: "@" operand: (call target: (identifier) @_name)
  (#any-of? @_name "doc" "spec" "typedoc" "impl" "deprecated" "since" "tag")) @attribute

(call target: (identifier) @_keyword (#any-of? @_keyword "alias" "import" "use" "require")) @import

(call target: (identifier) @_branch (#any-of? @_branch "if" "unless" "for" "with" "while")) @decision
(stab_clause) @decision
(binary_operator operator: ["and" "or" "&&" "||"]) @decision

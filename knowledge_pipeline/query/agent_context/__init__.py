"""Context for an agent's task: the searches that suit it, selected and rendered within a token budget."""

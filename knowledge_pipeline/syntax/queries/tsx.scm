; TSX adds no definitions to typescript.scm.

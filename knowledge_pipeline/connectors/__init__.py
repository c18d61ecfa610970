"""Where documents come from: one module or folder for each service."""

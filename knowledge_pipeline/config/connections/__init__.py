"""Where documents are read from: one model for each kind of connection in `knowledge.yaml`.

Secrets are written `${NAME}` in the file and held as `SecretStr`, which prints as stars.
"""

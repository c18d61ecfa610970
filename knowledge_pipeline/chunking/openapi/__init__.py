"""OpenAPI and Swagger files to chunks, one operation each."""

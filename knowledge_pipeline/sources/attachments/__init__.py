"""Files that hang on documents of services: downloaded, read, and described by what they hang on."""

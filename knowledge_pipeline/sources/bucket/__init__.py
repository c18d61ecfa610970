"""Files of buckets: S3, Google Cloud Storage and Azure Blob Storage."""

"""Files of buckets: S3 and Google Cloud Storage."""

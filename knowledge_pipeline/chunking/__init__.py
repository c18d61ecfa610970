"""Documents into chunks: pure functions, one module for each way of cutting."""

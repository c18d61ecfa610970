"""What an agent should read before it does a task."""

"""Pull requests and issues of GitHub."""

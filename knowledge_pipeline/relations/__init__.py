"""What documents are called, and what they say of each other: ids, links and front matter. Pure."""

"""Commands about the store as a whole: bring it up to date, publish it elsewhere."""

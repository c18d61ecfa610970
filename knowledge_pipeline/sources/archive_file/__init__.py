"""Files of one archive, ZIP or TAR: a file of this machine, or an object of a bucket."""

"""What the commands of `stakes` do, one module a command; the command line imports each when it is called."""

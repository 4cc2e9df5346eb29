"""The commands of `stakes`, one module per command; the command line imports each when it is called."""

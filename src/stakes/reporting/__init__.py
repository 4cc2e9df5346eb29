"""What was found, drawn and written for people to read."""

"""Vector decisions on real records: problems, the methods that solve them, and what these were worth."""

"""Decision problems with data: some simulated, with the truth known."""

"""What brings the decision into other people's training tools; one file for each, which nothing here imports."""

"""The claims of the paper, each judged from the tables of a run."""

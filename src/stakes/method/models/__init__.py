"""Models that emit members: the protocol, and the paper's two."""

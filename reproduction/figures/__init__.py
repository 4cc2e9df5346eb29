"""The paper's figures, and those of the portfolios beyond it."""

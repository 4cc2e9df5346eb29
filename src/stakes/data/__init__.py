"""Real records shipped with the package, and lagged features and splits of any regular series."""

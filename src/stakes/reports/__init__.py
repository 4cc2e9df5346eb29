"""Reports for people: the page, its tables and figures, and the report of a fit."""

"""Users' tables: files, columns, layout, lags."""

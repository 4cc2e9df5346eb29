"""Is the default forecast as good as what two lines of scikit-learn give? Real problems, rivals, one table.

    python -m benchmarks.forecast_quality [--reference FOLDER] [--problems ...] [--forecasts ...] [--seeds N] [--jobs N]

`problems` has the problems, `rivals` and `ours` the forecasts, `cells` runs one forecast on one problem and keeps what
came of it, `comparison` makes the table of them and `page` what people read.
"""

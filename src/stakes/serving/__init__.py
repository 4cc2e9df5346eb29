"""The web service: decisions, forecasts and the page of a fitted forecaster over HTTP; needs the extra `serve`."""

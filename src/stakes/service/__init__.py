"""The web service: decisions and forecasts over HTTP, and a page; needs the extra `serve`."""

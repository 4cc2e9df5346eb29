"""ERA5 at a point or a small patch as one NetCDF file, fetched from the Climate Data Store or a Zarr store."""

from stakes.data.era5.fetch import Fetched, Source, fetch_era5, find_source
from stakes.data.era5.request import Era5Request

__all__ = ["Era5Request", "Fetched", "Source", "fetch_era5", "find_source"]

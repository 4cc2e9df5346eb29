"""The real records shipped inside the package: weather, wind and electricity load, as found at their sources."""

from stakes.data.records.record import MISSING_INTEGER, Record, load_record, record_names, records_folder

__all__ = ["MISSING_INTEGER", "Record", "load_record", "record_names", "records_folder"]

"""The real records shipped inside the package: weather, wind and electricity load, as found at their sources."""

from stakes.data.records.record import MISSING, Record, load_record, record_names, records_folder

__all__ = ["MISSING", "Record", "load_record", "record_names", "records_folder"]

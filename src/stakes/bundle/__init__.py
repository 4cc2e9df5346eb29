"""A fitted forecaster in a folder: JSON and safetensors, checked when read, with nothing in it that is executed."""

from stakes.bundle.bundle import Bundle, load_bundle, save_bundle
from stakes.bundle.manifest import FORMAT, DataFingerprint, bundle_files, is_bundle, record_file
from stakes.errors import BundleError

__all__ = ["FORMAT", "Bundle", "BundleError", "DataFingerprint", "bundle_files", "is_bundle", "load_bundle"]
__all__ += ["record_file", "save_bundle"]

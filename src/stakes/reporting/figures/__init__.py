"""One function a figure; the labels are those of the paper."""

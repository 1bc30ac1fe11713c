"""DICOM files: headers read before pixels, pixels decoded in a child process."""

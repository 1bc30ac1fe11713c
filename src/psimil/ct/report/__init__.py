"""What a prediction of scans leaves behind: tables, figures, DICOM reports."""

"""The scikit-learn shell around inference."""

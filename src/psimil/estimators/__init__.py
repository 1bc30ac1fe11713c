"""What is fitted: scikit-learn classifiers of bags."""

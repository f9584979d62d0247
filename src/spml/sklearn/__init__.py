"""A classifier of scikit-learn, and scorers for its searches.

from spml.sklearn import SinglePositiveClassifier, sp_score

classifier = SinglePositiveClassifier(mean_labels=1.5).fit(X, y)  # one known label of each sample
classifier.predict(X_new)  # every label, int64 (N, C)
"""

from .classifier import SinglePositiveClassifier
from .scorers import mean_average_precision, sp_score

__all__ = ["SinglePositiveClassifier", "mean_average_precision", "sp_score"]

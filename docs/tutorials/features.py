# %% [markdown]
# # Tutorial: a table of features, with scikit-learn
#
# `SinglePositiveClassifier` is a classifier of scikit-learn: one known label per row goes in, and every label comes
# out. We compute a small table of features, compare the usual way of training with single labels with this package,
# and choose a setting without looking at a label that nobody gave.

# %%
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import MultiLabelBinarizer

from spml.sklearn import SinglePositiveClassifier, mean_average_precision, sp_score

sys.path.insert(0, "examples/scenes")  # of a clone of the repository, in whose folder this notebook runs
from make_scenes import make_photos

make_photos(Path("scenes"), 1000)
table = pd.read_csv("scenes.csv")
table["tag"] = table["file"].str.split("/").str[1]  # the one label that is known
table.head()

# %% [markdown]
# Features: how often each of 125 colours occurs in a photograph. That is far less than a network sees, but it tells
# grass from gravel, and a ball from a hat.


# %%
def colours(file):
    with Image.open(file) as photo:
        levels = np.asarray(photo.resize((64, 64))) // 52  # five levels of red, green and blue
    index = levels.reshape(-1, 3) @ [25, 5, 1]
    return np.sqrt(np.bincount(index, minlength=125) / len(index))


X = np.stack([colours(file) for file in table["file"]])
truth = MultiLabelBinarizer().fit(table["labels"].str.split("|"))
labels = truth.transform(table["labels"].str.split("|"))
train, test = slice(0, 700), slice(700, None)
X.shape, labels.sum(1).mean()

# %% [markdown]
# ## The usual way
#
# Every label that is not known counts as absent, and one logistic regression is fitted for each class.

# %%
tags = (table["tag"].to_numpy()[:, None] == truth.classes_).astype(int)
usual = OneVsRestClassifier(LogisticRegression(max_iter=2000, C=10)).fit(X[train], tags[train])
print(f"mAP {100 * mean_average_precision(usual, X[test], labels[test]):.1f}")
print(f"predicts {usual.predict(X[test]).sum(1).mean():.2f} labels of {labels[test].sum(1).mean():.2f}")

# %% [markdown]
# It orders photographs well, but hardly predicts anything: in training, most labels that were there were counted as
# absent.
#
# ## With `spml`

# %%
model = SinglePositiveClassifier(mean_labels=3).fit(X[train], table["tag"][train])
print(f"mAP {100 * mean_average_precision(model, X[test], labels[test]):.1f}")
print(f"predicts {model.predict(X[test]).sum(1).mean():.2f} labels of {labels[test].sum(1).mean():.2f}")

# %% [markdown]
# `mean_labels=3` says that photographs show about three things; [fifty that are labelled in full](../audit-sample.md)
# tell it. Thresholds follow from it, and `predict_proba` gives probabilities.
#
# ## Choose a setting without full labels
#
# The [SP-score](../selection.md) needs the single labels only. Two methods with two learning rates are tried by
# cross-validation, as in any search of scikit-learn.

# %%
search = GridSearchCV(
    SinglePositiveClassifier(epochs=20, mean_labels=3),
    {"method": ["an", "gr"], "lr": [0.01, 0.03]},
    scoring=sp_score,
    cv=3,
)
search.fit(X[train], table["tag"][train])
results = pd.DataFrame(search.cv_results_)[["param_method", "param_lr", "mean_test_score"]]
best = search.best_estimator_
print(f"chosen: {search.best_params_}, mAP {100 * mean_average_precision(best, X[test], labels[test]):.1f}")
results.round(3)

# %% [markdown]
# What the search found is the best of these four. The default above, which is solved instead of trained, was not among
# them, and is further ahead.
#
# Next: [all of the estimator](../scikit-learn.md), [which method](../choose.md),
# [what the probabilities promise](../decisions.md).

"""What people use instead of spml on fixed features, each as its documentation suggests.

Every function takes the features (N, D) and the one known class (N,) of labelled samples, the features of
test samples, and a `Task`. It returns scores (T, C) of the test samples, higher = more likely, and the labels
(T, C) that it decides on by itself. Lines of its body are counted as what a user writes.
"""

from __future__ import annotations

import tempfile
from typing import NamedTuple

import numpy as np
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifierCV
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.multiclass import OneVsRestClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler


class Task(NamedTuple):
    """What is known besides the samples: number of classes, mean labels per sample K, and a seed."""

    classes: int
    mean_labels: float
    seed: int


def one_hot(classes, task):
    """Labels (N, C) in {0, 1} of one class per sample."""
    return np.eye(task.classes, dtype=np.int64)[classes]


def of_all_classes(model, scores, task):
    """Scores (T, C) of a model that knows the classes it has seen; the others have the lowest score."""
    scores = scores if scores.ndim == 2 else np.stack([-scores, scores], 1)
    result = np.full((len(scores), task.classes), scores.min(), dtype=np.float64)
    result[:, model.classes_] = scores
    return result


def single(model, X, y, test, task):
    """Scores and decisions of a classifier that gives each sample one class."""
    model.fit(X, y)
    known = hasattr(model, "predict_proba")  # of two samples, a logit does not tell which has the class
    scores = model.predict_proba(test) if known else model.decision_function(test)
    return of_all_classes(model, scores, task), one_hot(model.predict(test), task)


def per_class(fit, X, y, test, task):
    """Scores and decisions of binary classifiers `fit(X, positive, share)`, one per class that was seen.

    `share` is the prior of the class: its share of the known labels times K. A class that a method refuses
    is ranked last.
    """
    scores = np.full((len(test), task.classes), -np.inf)
    decided = np.zeros(scores.shape, dtype=np.int64)
    for label in np.unique(y):
        positive = y == label
        share = min(task.mean_labels * positive.mean(), 1 - 1 / len(y))
        try:
            scores[:, label], decided[:, label] = fit(X, positive, share)(test)
        except ValueError:  # too few positives for its own hold-out
            continue
    scores[np.isneginf(scores)] = scores[np.isfinite(scores)].min()
    return scores, decided


def by_probability(model):
    """Scores and decisions of a binary classifier that has been fitted, as `per_class` takes them."""
    return lambda test: (model.predict_proba(test)[:, 1], model.predict(test) == 1)


def ridge(X, y, test, task):
    """Ridge regression on the one-hot label, penalty by leave-one-out."""
    model = make_pipeline(StandardScaler(), RidgeClassifierCV(np.logspace(-1, 6, 15)))
    return single(model, X, y, test, task)


def logistic(X, y, test, task):
    """Multinomial logistic regression as it comes."""
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    return single(model, X, y, test, task)


def logistic_cv(X, y, test, task):
    """Multinomial logistic regression, penalty by cross-validated accuracy."""
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000, tol=1e-3))
    grid = GridSearchCV(model, {"logisticregression__C": np.logspace(-5, 1, 7)}, cv=3)
    return single(grid, X, y, test, task)


def lda(X, y, test, task):
    """Linear discriminant analysis, Ledoit-Wolf shrinkage."""
    model = make_pipeline(StandardScaler(), LinearDiscriminantAnalysis("lsqr", shrinkage="auto"))
    return single(model, X, y, test, task)


def random_forest(X, y, test, task):
    """Random forest of 500 trees, leaves of at least 2."""
    model = RandomForestClassifier(500, min_samples_leaf=2, random_state=task.seed)
    return single(model, X, y, test, task)


def extra_trees(X, y, test, task):
    """500 extremely randomised trees, leaves of at least 2."""
    model = ExtraTreesClassifier(500, min_samples_leaf=2, random_state=task.seed)
    return single(model, X, y, test, task)


def neighbours(X, y, test, task):
    """15 nearest neighbours."""
    model = make_pipeline(StandardScaler(), KNeighborsClassifier(15))
    return single(model, X, y, test, task)


def boosting(X, y, test, task):
    """Histogram gradient boosting."""
    model = HistGradientBoostingClassifier(early_stopping=False, random_state=task.seed)
    return single(model, X, y, test, task)


def mlp(X, y, test, task):
    """Network of one hidden layer of 256 units, early stopping."""
    network = MLPClassifier(256, early_stopping=len(y) > 10 * task.classes, random_state=task.seed)
    return single(make_pipeline(StandardScaler(), network), X, y, test, task)


def nnpu(X, y, test, task):
    """pulearn: non-negative PU learning, linear, with the stated prior."""
    from pulearn import NNPUClassifier

    def fit(X, positive, share):
        model = NNPUClassifier(prior=share, random_state=task.seed).fit(X, positive.astype(int))
        return lambda test: (model.decision_function(test), model.predict(test) == 1)

    scale = StandardScaler().fit(X)
    return per_class(fit, scale.transform(X), y, scale.transform(test), task)


def elkan_noto(X, y, test, task):
    """pulearn: Elkan and Noto's correction of logistic regression."""
    from pulearn import ElkanotoPuClassifier

    def fit(X, positive, share):
        model = ElkanotoPuClassifier(LogisticRegression(max_iter=1000), random_state=task.seed)
        return by_probability(model.fit(X, positive.astype(int)))

    scale = StandardScaler().fit(X)
    return per_class(fit, scale.transform(X), y, scale.transform(test), task)


def pu_bagging(X, y, test, task):
    """pulearn: bagging of decision trees on positives and as many unlabelled samples."""
    from pulearn import BaggingPuClassifier

    def fit(X, positive, share):
        model = BaggingPuClassifier(
            n_estimators=50, max_samples=int(positive.sum()), oob_score=False, random_state=task.seed
        )
        return by_probability(model.fit(X, positive.astype(int)))

    return per_class(fit, X, y, test, task)


def weighted_elkan_noto(X, y, test, task):
    """pu-toolbox: logistic regression, retrained with Elkan and Noto's weights."""
    from pu_toolbox.estimators.classic.elkan_noto import ElkanNotoClassifier

    def fit(X, positive, share):
        model = ElkanNotoClassifier(LogisticRegression(max_iter=1000), random_state=task.seed)
        return by_probability(model.fit(X, positive.astype(int)))

    scale = StandardScaler().fit(X)
    return per_class(fit, scale.transform(X), y, scale.transform(test), task)


def smile_skmultilearn(X, y, test, task):
    """scikit-multilearn-ng: SMiLE, semi-supervised learning with missing labels."""
    from skmultilearn.missing import SMiLE

    model = SMiLE()
    model.fit(X, one_hot(y, task))
    scores = test @ model.P + model.b.ravel()  # its predict fails with numpy 2: here is what it does
    return scores, scores > 0.5


def mlknn(X, y, test, task):
    """scikit-multilearn-ng: multi-label nearest neighbours."""
    from skmultilearn.adapt import MLkNN

    model = MLkNN(k=10).fit(X, one_hot(y, task))
    return model.predict_proba(test).toarray(), model.predict(test).toarray()


def out_of_fold(X, y, task):
    """One-versus-rest logistic regression with its cross-validated probabilities (N, C)."""
    model = make_pipeline(StandardScaler(), OneVsRestClassifier(LogisticRegression(max_iter=1000)))
    shuffled = np.random.default_rng(task.seed).permutation(len(y))
    folds = [(np.setdiff1d(shuffled, part), np.sort(part)) for part in np.array_split(shuffled, 5)]
    return model, cross_val_predict(model, X, one_hot(y, task), cv=folds, method="predict_proba")


def cleanlab(X, y, test, task):
    """cleanlab: labels that it finds to be missing are added, and logistic regression is fitted again."""
    from cleanlab.multilabel_classification.filter import find_multilabel_issues_per_class

    model, probabilities = out_of_fold(X, y, task)
    labels = one_hot(y, task)
    issues = find_multilabel_issues_per_class([[int(one)] for one in y], probabilities, n_jobs=1)
    labels |= issues  # every known positive is right, so an issue is a label that is missing
    model.fit(X, labels)
    return model.predict_proba(test), model.predict(test)


def large_loss(X, y, test, task):
    """mlcpl: a linear layer with large-loss rejection, where unknown labels are NaN."""
    import torch
    from mlcpl.losses import LargeLossRejection

    torch.manual_seed(task.seed)
    scale = StandardScaler().fit(X)
    inputs = torch.as_tensor(scale.transform(X), dtype=torch.float32)
    targets = torch.where(torch.as_tensor(one_hot(y, task)) == 1, 1.0, torch.nan)
    layer, loss = torch.nn.Linear(inputs.shape[1], task.classes), LargeLossRejection()
    optimiser = torch.optim.Adam(layer.parameters(), lr=1e-3)
    for epoch in range(20):
        for rows in torch.randperm(len(inputs)).split(32):
            optimiser.zero_grad()
            loss(layer(inputs[rows]), targets[rows], epoch).backward()
            optimiser.step()
    with torch.no_grad():
        scores = layer(torch.as_tensor(scale.transform(test), dtype=torch.float32)).numpy()
    return scores, scores > 0


def label_tree(X, y, test, task):
    """napkinxc: a probabilistic label tree."""
    from napkinxc.models import PLT
    from scipy.sparse import csr_matrix

    with tempfile.TemporaryDirectory() as folder:
        model = PLT(folder, seed=task.seed)
        model.fit(csr_matrix(X), [[int(one)] for one in y])
        ranked = model.predict_proba(csr_matrix(test), top_k=task.classes)
    scores = np.zeros((len(test), task.classes))
    for row, found in enumerate(ranked):
        for label, probability in found:
            scores[row, label] = probability
    return scores, scores > 0.5


def spml_auto(X, y, test, task):
    """spml as it comes, with K stated."""
    from spml.sklearn import SinglePositiveClassifier

    model = SinglePositiveClassifier(
        mean_labels=task.mean_labels, classes=range(task.classes), random_state=task.seed
    )
    model.fit(X, y)
    return model.decision_function(test), model.predict(test)


PEERS = {
    "spml": spml_auto,
    "ridge, CV": ridge,
    "logistic regression": logistic,
    "logistic regression, CV": logistic_cv,
    "LDA": lda,
    "random forest": random_forest,
    "extremely randomised trees": extra_trees,
    "15 neighbours": neighbours,
    "gradient boosting": boosting,
    "MLP": mlp,
    "pulearn nnPU": nnpu,
    "pulearn Elkan-Noto": elkan_noto,
    "pulearn bagging": pu_bagging,
    "pu-toolbox Elkan-Noto": weighted_elkan_noto,
    "scikit-multilearn SMiLE": smile_skmultilearn,
    "scikit-multilearn MLkNN": mlknn,
    "cleanlab, refitted": cleanlab,
    "mlcpl large loss": large_loss,
    "napkinXC label tree": label_tree,
}

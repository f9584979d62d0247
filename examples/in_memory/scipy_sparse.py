"""Bags of words in a sparse matrix of SciPy, labels as names.

    python examples/in_memory/scipy_sparse.py

A notebook in a script: a comment at the end of a cell shows what it prints.
"""

# %%
import tempfile

from sklearn.feature_extraction.text import CountVectorizer

import spml

folder = tempfile.TemporaryDirectory()
openings = ["rain over the hills", "snow on the roofs", "goal in the last minute", "a match without a goal"]
endings = ["again", "all day", "this evening", "as expected", "at last", "for once", "up north", "here"]
texts = [f"{opening} {ending}" for ending in endings for opening in openings]
y = ["weather", "weather", "sport", "sport"] * len(endings)
words = CountVectorizer()
X = words.fit_transform(texts)
print(type(X).__name__, X.shape)
# csr_matrix (32, 26)

# %%
run = spml.train(X, y, head="ridge", mean_labels=1, output=f"{folder.name}/run", quiet=True)
new = words.transform(["snow and rain", "the last goal"])
print(run.predict(new, top1_fallback=True).labels)
# [['weather'], ['sport']]

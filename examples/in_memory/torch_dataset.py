"""A Dataset of PyTorch that gives (image, label).

    python examples/in_memory/torch_dataset.py

A notebook in a script: a comment at the end of a cell shows what it prints.
"""

# %%
import tempfile

from PIL import Image
from torch.utils.data import Dataset

import spml

folder = tempfile.TemporaryDirectory()


class Colours(Dataset):
    """Plain images. Without random transforms and normalisation: both are part of the training."""

    classes = ("red", "green", "blue")  # names of the indices

    def __len__(self):
        return 36

    def __getitem__(self, number):
        return Image.new("RGB", (40, 40), self.classes[number % 3]), number % 3


# %%
run = spml.train(
    Colours(), backbone="small_cnn", batch_size=8, epochs=10, output=f"{folder.name}/run", quiet=True
)
print(run.classes)
# ('red', 'green', 'blue')

# %% Its labels are ignored in prediction.
print(run.predict(Colours(), top_k=1).labels[:3])
# [['red'], ['green'], ['blue']]

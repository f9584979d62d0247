"""Images of Pillow, labels as names.

    python examples/in_memory/pil_images.py

A notebook in a script: a comment at the end of a cell shows what it prints.
"""

# %%
import tempfile

from PIL import Image

import spml

folder = tempfile.TemporaryDirectory()
colours = ["red", "green", "blue"] * 12
images = [Image.new("RGB", (40 + number, 40), colour) for number, colour in enumerate(colours)]
print(images[5].size, len(images))
# (45, 40) 36

# %%
run = spml.train(
    images, colours, backbone="small_cnn", batch_size=8, epochs=10, output=f"{folder.name}/run", quiet=True
)
print(run.predict([Image.new("RGB", (300, 200), "green")], top_k=1).labels)
# [['green']]

# %% The network takes what `transform` makes of an image.
pixels = run.transform(images[0])
print(tuple(pixels.shape), tuple(run.model(pixels[None]).shape))
# (3, 40, 40) (1, 3)

"""Label images with an exported model: onnxruntime, NumPy and Pillow, without torch and without spml.

    python examples/onnx_predict.py MODEL.onnx IMAGE [IMAGE ...]

MODEL.onnx is what `spml export RUN` writes for a run on images.
"""

import json
import sys

import numpy as np
import onnxruntime
from PIL import Image, ImageOps


def decode(path):
    """Decode an image as spml does: upright, transparency on white, RGB; uint8 (H, W, 3)."""
    image = ImageOps.exif_transpose(Image.open(path))
    if image.has_transparency_data:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return np.asarray(image.convert("RGB"))


def main(model, *paths):
    """Print the labels of each image, the most probable first; gives them with all numbers."""
    session = onnxruntime.InferenceSession(model)
    about = json.loads(session.get_modelmeta().custom_metadata_map["spml"])
    numbers = "probabilities" if "probabilities" in about["outputs"] else "scores"
    results = {}
    for path in paths:
        labels, values = session.run(["labels", numbers], {"images": decode(path)[None]})
        order = [column for column in np.argsort(-values[0], kind="stable") if labels[0, column]]
        print(path, *(f"{about['classes'][column]} {values[0, column]:.3f}" for column in order), sep="\t")
        results[path] = [about["classes"][column] for column in order], values[0]
    return results


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Baseline of `spml serve`: plain FastAPI, which decodes and asks the model in each request.

    python benchmarks/serving_bare.py RUN PORT

`benchmarks/serving.py` starts it. One thread of torch per request.
"""

import sys

import torch
import uvicorn
from fastapi import FastAPI, UploadFile
from PIL import Image

import spml

app = FastAPI()


@app.post("/predict")
def predict(images: UploadFile):
    """Score an image."""
    pixels = run.transform(Image.open(images.file))
    with torch.inference_mode():
        scores = torch.sigmoid(model(pixels[None]))[0]
    return dict(zip(run.classes, scores.tolist(), strict=True))


if __name__ == "__main__":
    torch.set_num_threads(1)
    run = spml.load(sys.argv[1])
    model = run.model
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[2]), log_level="error", access_log=False)

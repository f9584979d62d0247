"""Baseline of `spml serve`: LitServe with batches.

    python benchmarks/serving_litserve.py RUN PORT

`benchmarks/serving.py` starts it. Batches of at most 32, collected for 5 ms; one thread of torch.
"""

import sys

import litserve
import torch
from PIL import Image

import spml


class Api(litserve.LitAPI):
    """The model of a run."""

    def setup(self, device):
        """Load the run."""
        torch.set_num_threads(1)
        self.run = spml.load(sys.argv[1])
        self.model = self.run.model

    def decode_request(self, request):
        """Decode an image."""
        return self.run.transform(Image.open(request["images"].file))

    def batch(self, inputs):
        """Images of several requests."""
        return torch.stack(inputs)

    def predict(self, x):
        """Score images."""
        with torch.inference_mode():
            return torch.sigmoid(self.model(x))

    def unbatch(self, output):
        """Scores of each request."""
        return list(output)

    def encode_response(self, output):
        """Scores by class."""
        return dict(zip(self.run.classes, output.tolist(), strict=True))


if __name__ == "__main__":
    server = litserve.LitServer(Api(max_batch_size=32, batch_timeout=0.005), accelerator="cpu", timeout=120)
    server.run(host="127.0.0.1", port=int(sys.argv[2]), log_level="error", generate_client_file=False)

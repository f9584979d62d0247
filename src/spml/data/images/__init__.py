"""Images of a data set: checked, decoded when they are needed, and kept.

- `image_files`, `decoding`, `views`: from a file to the tensors of a batch
- `feature_store`: features of images that are kept on disk
"""

"""Images of a data set: checked, decoded when they are needed, and kept.

- `image_files`, `decoding`, `views`: from a file to the tensors of a batch
- `cache`, `feature_store`: decoded images, and features of a frozen backbone, that are kept on disk
"""

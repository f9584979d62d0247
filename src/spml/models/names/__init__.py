"""Names of classes as evidence: words, and their embeddings by the text tower of a model that knows images
and language."""

from .text_tower import NameEvidence, read_name_evidence

__all__ = ["NameEvidence", "read_name_evidence"]

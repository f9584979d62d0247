"""Files of the Hugging Face hub."""

from __future__ import annotations


def hub_file(repository: str, file: str) -> str:
    """Path of a file of the Hugging Face hub, downloaded unless it is in the cache."""
    import huggingface_hub

    path = huggingface_hub.try_to_load_from_cache(repository, file)
    if isinstance(path, str):
        return path
    # Asks once and fails at once without a network, where the download would ask again for a minute.
    huggingface_hub.get_hf_file_metadata(huggingface_hub.hf_hub_url(repository, file))
    return huggingface_hub.hf_hub_download(repository, file)

"""XMP sidecars: the predicted labels of each photo in a small file next to it, for photo programs."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from xml.sax.saxutils import escape

import numpy as np
import numpy.typing as npt

from ...common.errors import InputError
from ...common.files import write_text
from ...common.phrases import counted, first_few
from ...data import Inputs
from ...data.images.image_files import ImageFiles
from ...data.readers.keywords import TOOLKIT

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_PACKET = """<?xpacket begin="\ufeff" id="W5M0MpCehiHzreSzNTczkc9d"?>
<x:xmpmeta xmlns:x="adobe:ns:meta/" x:xmptk="{toolkit}">
 <rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">
  <rdf:Description rdf:about=""
    xmlns:dc="http://purl.org/dc/elements/1.1/"
    xmlns:lr="http://ns.adobe.com/lightroom/1.0/">{properties}
  </rdf:Description>
 </rdf:RDF>
</x:xmpmeta>
<?xpacket end="w"?>
"""
_PROPERTIES = "dc:subject", "lr:hierarchicalSubject"  # some programs read only one of them


def packet(labels: Sequence[str]) -> str:
    """XMP packet with a bag of labels; without a label it has no properties."""
    texts = (escape(_NOT_XML.sub("\ufffd", label)) for label in labels)
    items = "".join(f"\n     <rdf:li>{text}</rdf:li>" for text in texts)
    bag = f"\n    <rdf:Bag>{items}\n    </rdf:Bag>\n   "
    return _PACKET.format(
        toolkit=TOOLKIT, properties="".join(f"\n   <{name}>{bag}</{name}>" for name in _PROPERTIES if labels)
    )


class Sidecars:
    """Writer of the sidecar PHOTO.xmp of each photo.

    Args:
        inputs: Samples to predict.
        overwrite: Replace sidecars that exist.

    Attributes:
        written: Number of sidecars that were written.
        left: Those that another program made in the meantime, which are left as they are.

    Raises:
        InputError: The samples are not photos, a sidecar exists, or a folder may not be written to.
    """

    def __init__(self, inputs: Inputs, overwrite: bool) -> None:
        if not isinstance(inputs, ImageFiles):
            raise InputError(
                "`sidecars` writes next to photos, but the samples are features. Leave it out, or name the "
                "photos."
            )
        self._photos, self._overwrite = inputs.paths, overwrite
        self.written, self.left = 0, list[str]()
        existing = [] if overwrite else [*filter(os.path.lexists, map(_sidecar, self._photos))]
        if existing:
            raise InputError(
                f"{counted(len(existing), 'sidecar exists', 'sidecars exist')} already "
                f"({first_few(existing, 3)}). Pass `overwrite` to replace them with all that they hold, such "
                "as ratings and captions of another program, or move them away."
            )
        for folder in sorted({os.path.dirname(_sidecar(photo)) or "." for photo in self._photos}):
            if not os.access(folder, os.W_OK):
                raise InputError(
                    f"{folder}: may not be written to, so no sidecar can be put next to its photos. Make it "
                    "writable, or copy the photos."
                )

    def write(self, rows: npt.NDArray[np.int64], labels: Sequence[Sequence[str]]) -> None:
        """Write the sidecars of some samples, each completely or not at all.

        A photo without a label gets one, too, so that no labels of an earlier prediction stay.

        Raises:
            SpmlError: One can't be written.
        """
        for row, names in zip(rows.tolist(), labels, strict=True):
            path = _sidecar(self._photos[row])
            if not self._overwrite and os.path.lexists(path):
                self.left.append(path)
                continue
            write_text(Path(path), packet(names))
            self.written += 1


def _sidecar(photo: object) -> str:
    """Path of the sidecar: the whole name of the photo, so that `a.jpg` and `a.png` have one each."""
    return f"{photo}.xmp"

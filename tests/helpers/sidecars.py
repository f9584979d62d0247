"""XMP sidecars, read by a parser of XML."""

from __future__ import annotations

from xml.etree import ElementTree

_RDF = "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}"
_SUBJECT = "{http://purl.org/dc/elements/1.1/}subject"
_HIERARCHICAL = "{http://ns.adobe.com/lightroom/1.0/}hierarchicalSubject"


def subjects(content: bytes) -> list[str]:
    """Labels of a packet, which must be the same in both of its bags; empty if it has none."""
    root = ElementTree.fromstring(content)
    assert root.tag == "{adobe:ns:meta/}xmpmeta"
    subject, hierarchical = (
        [item.text or "" for item in root.findall(f"{_RDF}RDF/{_RDF}Description/{name}/{_RDF}Bag/{_RDF}li")]
        for name in (_SUBJECT, _HIERARCHICAL)
    )
    assert subject == hierarchical
    return subject

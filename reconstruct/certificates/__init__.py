"""Certificates: what is proved about |f − g| on the whole domain, and how it is checked again."""

from reconstruct.certificates.certify import certify
from reconstruct.certificates.document import build_document, write_certificate
from reconstruct.certificates.verdicts import Certificate, Rigor, Segment, Verdict
from reconstruct.equivalence.witness import Witness, enclose, evaluate_exact

__all__ = [
    "Certificate",
    "Rigor",
    "Segment",
    "Verdict",
    "Witness",
    "build_document",
    "certify",
    "enclose",
    "evaluate_exact",
    "write_certificate",
]

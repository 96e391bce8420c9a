"""Certificates: what is proved about |f − g| on the whole domain, and how it is checked again."""

from reconstruct.certificates.certify import certify
from reconstruct.certificates.exact import enclose, evaluate_exact
from reconstruct.certificates.verdicts import Certificate, Rigor, Segment, Verdict, Witness

__all__ = [
    "Certificate",
    "Rigor",
    "Segment",
    "Verdict",
    "Witness",
    "certify",
    "enclose",
    "evaluate_exact",
]

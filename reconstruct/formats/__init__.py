"""Files: networks in ONNX, .npz and .nnet, domains in VNN-LIB and .npz. No pickle anywhere."""

from reconstruct.formats.domain import load_domain
from reconstruct.formats.files import sha256_file, write_atomically
from reconstruct.formats.network_file import Origin, load, save

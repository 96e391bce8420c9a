"""ONNX models: what the file computes, as a network, and networks as ONNX models."""

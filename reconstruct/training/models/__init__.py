"""The models that are trained: residual, plain convolutional and fully connected networks."""

"""The compiled kernels; empty where the package was built without a compiler."""

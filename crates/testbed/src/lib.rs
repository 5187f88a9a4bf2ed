//! Experiments on real kernels: namespaces, emulated links and traffic.

//! IP, TCP, UDP and ICMP views, checksums and segmentation-offload super-packets.

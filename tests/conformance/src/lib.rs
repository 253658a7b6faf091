//! Every kernel against its reference on every device.

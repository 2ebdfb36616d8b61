//! What goes over the wire: request and response shapes, the envelope, error codes and their schemas.

//! Every row of the contract's table of errors.

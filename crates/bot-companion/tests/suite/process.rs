//! The binary as an operator runs it: start, stop, kill, configuration, commands.

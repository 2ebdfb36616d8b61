//! A terminal that a test types at.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

/// Runs a command at a terminal, types each of these lines when its question appears, and returns everything shown.
pub fn typed(mut command: Command, lines: &[(&str, &str)]) -> (i32, String) {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let name = ptsname(&terminal, Vec::new()).unwrap().into_string().unwrap();
    let side = || File::options().read(true).write(true).open(&name).unwrap();
    let mut child = command.stdin(side()).stdout(side()).stderr(Stdio::from(side())).spawn().unwrap();
    // Only the child has the other side open, so that its end is the end of the output.
    drop(command);
    let (mut terminal, mut shown) = (File::from(terminal), Vec::new());
    let mut wait_for = |terminal: &mut File, text: &str| {
        let mut bytes = [0; 1024];
        let begin = shown.len();
        loop {
            if !text.is_empty() && String::from_utf8_lossy(&shown[begin..]).contains(text) {
                return;
            }
            match terminal.read(&mut bytes) {
                Ok(read @ 1..) => shown.extend_from_slice(&bytes[..read]),
                // A terminal whose other side is closed returns an error.
                _ => return,
            }
        }
    };
    for (question, line) in lines {
        wait_for(&mut terminal, question);
        writeln!(terminal, "{line}").unwrap();
    }
    wait_for(&mut terminal, "");
    (child.wait().unwrap().code().unwrap(), String::from_utf8_lossy(&shown).into_owned())
}

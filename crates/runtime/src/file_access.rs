//! Who may use a file, in words for people.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::fs::StatVfsMountFlags;

/// Everyone who is neither the owner nor in the file's group, which operators may use for backups.
pub const OTHERS: u32 = 0o007;
/// Everyone but the owner.
pub const ALL_BUT_OWNER: u32 = 0o077;

/// Whether these can read or write the file. `false` if it does not exist or isn't a regular file, because nobody reads a pipe
/// twice.
pub fn is_open_to(path: &Path, who: u32) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.mode() & who != 0)
}

/// Whether the file is on a read-only mount, like containers' secrets, where its mode cannot be changed from here.
pub fn is_on_read_only_mount(path: &Path) -> bool {
    rustix::fs::statvfs(path).is_ok_and(|found| found.f_flag.contains(StatVfsMountFlags::RDONLY))
}

/// The name of a file's owner, or else the number.
pub fn owner(path: &Path) -> String {
    let number = fs::metadata(path).map(|found| found.uid().to_string()).unwrap_or_default();
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let mut users = users.lines().map(|line| line.split(':').collect::<Vec<_>>());
    users.find(|user| user.get(2) == Some(&number.as_str())).map_or(number.clone(), |user| user[0].to_owned())
}

/// A file's or folder's owner and mode, and who asks; empty if unknown.
pub fn owner_and_mode(path: &Path) -> String {
    // The owner of a process's own folder is the user it runs as.
    let own = fs::metadata("/proc/self").map(|process| process.uid()).ok();
    fs::metadata(path).map(|found| in_words(found.uid(), found.mode() & 0o7777, own)).unwrap_or_default()
}

/// Why this process cannot read a file that only its group has to read, and what to run.
pub fn cannot_be_read(path: &Path, error: &io::Error) -> String {
    let owner = owner_and_mode(path);
    // The group of a process's own folder is the group it runs as.
    let Some(own) = fs::metadata("/proc/self").ok().filter(|_| error.kind() == io::ErrorKind::PermissionDenied) else {
        return format!("cannot be read: {error}");
    };
    let (path, own) = (path.display(), own.gid());
    let owner = if owner.is_empty() { owner } else { format!(": {owner}") };
    format!("cannot be read: {error}{owner}; run `chgrp {own} {path} && chmod 640 {path}`")
}

/// The command that lets the user of this process read and write a file.
pub fn remedy(path: &Path) -> String {
    let owner = |path: &Path| fs::metadata(path).map(|found| found.uid()).ok();
    command_for(path, owner(path), owner(Path::new("/proc/self")))
}

fn command_for(path: &Path, owner: Option<u32>, own: Option<u32>) -> String {
    match own {
        Some(own) if owner != Some(own) => format!("`chown {own} {}`", path.display()),
        _ => format!("`chmod 600 {}`", path.display()),
    }
}

fn in_words(owner: u32, mode: u32, own: Option<u32>) -> String {
    let name = |user: u32| if user == 0 { "root".to_owned() } else { format!("user {user}") };
    let runs = own.map(|own| format!(", and this process runs as {}", name(own))).unwrap_or_default();
    format!("it belongs to {} with mode {mode:04o}{runs}", name(owner))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use test_support::TestFolder;

    #[test]
    fn the_mode_says_who_can_read() {
        let folder = TestFolder::new();
        let file = folder.path("secret");
        fs::write(&file, "hush").unwrap();
        for (mode, to_others, to_group) in
            [(0o600, false, false), (0o640, false, true), (0o644, true, true), (0o602, true, true)]
        {
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(
                (is_open_to(&file, OTHERS), is_open_to(&file, ALL_BUT_OWNER)),
                (to_others, to_group),
                "{mode:o}"
            );
        }
        assert!(!is_open_to(&folder.path("absent"), ALL_BUT_OWNER) && !is_open_to(folder.root(), ALL_BUT_OWNER));
    }

    #[test]
    fn owners_are_named() {
        assert_eq!(
            in_words(0, 0o600, Some(1000)),
            "it belongs to root with mode 0600, and this process runs as user 1000"
        );
        assert_eq!(in_words(7, 0o44, None), "it belongs to user 7 with mode 0044");
        assert_eq!(owner_and_mode(Path::new("/absent")), "");
    }

    #[test]
    fn the_owner_changes_the_mode_and_everyone_else_the_owner() {
        let path = Path::new("/data/a.db");
        for (owner, own, command) in [
            (Some(0), Some(998), "`chown 998 /data/a.db`"),
            (None, Some(998), "`chown 998 /data/a.db`"),
            (Some(998), Some(998), "`chmod 600 /data/a.db`"),
            (Some(998), None, "`chmod 600 /data/a.db`"),
        ] {
            assert_eq!(command_for(path, owner, own), command);
        }
    }
}

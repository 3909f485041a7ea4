//! Users and groups by name, read from the files of the image: a static program has no name service.

/// A name of `/etc/passwd` or `/etc/group`, or the number itself.
pub fn name(file: &str, id: u32) -> String {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let found = text.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(id)).then(|| name.to_owned())
    });
    found.unwrap_or_else(|| id.to_string())
}

/// The number of a name, or of a number written out.
pub fn id(file: &str, name: &str) -> Option<u32> {
    if let Ok(id) = name.parse() {
        return Some(id);
    }
    let text = std::fs::read_to_string(file).ok()?;
    text.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next()? == name).then(|| fields.nth(1)?.parse().ok())?
    })
}

/// Where users are.
pub const USERS: &str = "/etc/passwd";
/// Where groups are.
pub const GROUPS: &str = "/etc/group";

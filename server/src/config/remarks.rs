//! What the writer of a file that can be used should know about it. No key is passed over in silence.

use crate::fields::Fields;

/// Sentences about keys that do not do what somebody may think they do.
#[derive(Debug, Default)]
pub struct Remarks {
    /// Unknown keys, and keys that ask for something this server does not do.
    pub warnings: Vec<String>,
    /// Keys that tune a part of the reference server that this one does not have.
    pub notes: Vec<String>,
}

impl Remarks {
    /// The key `name` asks for what is not done. `asked`: whether its value does.
    pub(super) fn no_effect(&mut self, f: &Fields<'_>, name: &str, asked: bool, why: &str) {
        if asked {
            self.warnings.push(format!("{} has no effect: {why}", f.key(name)));
        }
    }

    /// The keys `names` tune what is not there; those that the file has are told.
    pub(super) fn nothing_to_tune(&mut self, f: &Fields<'_>, names: &[&str], why: &str) {
        let there: Vec<String> = names.iter().filter(|name| f.has(name)).map(|name| f.key(name)).collect();
        match there.len() {
            0 => {}
            1 => self.notes.push(format!("{} is not needed: {why}", there[0])),
            _ => self.notes.push(format!("{} are not needed: {why}", there.join(", "))),
        }
    }

    /// Names the keys of an object that nothing has asked for; called when it is read.
    pub(super) fn unknown(&mut self, f: &Fields<'_>) {
        self.warnings.extend(f.unread().iter().map(|key| format!("unknown key \"{key}\" has no effect")));
    }
}

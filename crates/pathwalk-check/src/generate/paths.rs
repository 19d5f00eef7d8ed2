//! Draws paths: what was made before, or anything that can be written with a few names, dots and slashes.

use super::Generator;
use crate::field::Text;

/// A name with what a text cannot show as it is.
const ODD: &[u8] = b"\xff \t\n\\#";

impl Generator {
    /// What was made before, or any path.
    pub(super) fn path(&mut self) -> Text {
        if self.procfs && self.one_in(4) {
            return self.path_by_task();
        }
        let made = self.made.len();
        if made == 0 || self.rng.bool() {
            return self.any_path();
        }
        let mut path = self.made[self.rng.usize(..made)].clone();
        match self.rng.u8(..12) {
            0 => path.push(b'/'),
            1..4 => {
                path.push(b'/');
                self.component(&mut path);
            }
            4 if !path.starts_with(b"/") => path.insert(0, b'/'),
            _ => {}
        }
        Text(path)
    }

    fn any_path(&mut self) -> Text {
        let mut path = Vec::new();
        if self.one_in(4) {
            path.extend_from_slice(self.pick(&["/", "/", "//"]).as_bytes());
        }
        for index in 0..self.pick(&[1, 1, 1, 1, 2, 2, 2, 3, 3, 4]) {
            if index != 0 {
                path.extend_from_slice(self.pick(&["/", "/", "/", "/", "//"]).as_bytes());
            }
            self.component(&mut path);
        }
        match self.rng.u8(..24) {
            0..2 => path.push(b'/'),
            2 => path.extend_from_slice(b"//"),
            3 => path.extend_from_slice(b"/."),
            4 => path.extend_from_slice(b"/.."),
            5 if self.one_in(4) => path.clear(),
            6 if self.one_in(8) => {
                path.splice(..0, b"./".repeat(self.pick(&[2046, 2047, 2048])));
            }
            7 if self.one_in(4) => path = self.pick(&["/", "."]).into(),
            _ => {}
        }
        Text(path)
    }

    pub(super) fn component(&mut self, path: &mut Vec<u8>) {
        match self.rng.u8(..40) {
            0..12 => path.push(b'a'),
            12..22 => path.push(b'b'),
            22..28 => path.push(b'c'),
            // What is shown otherwise than it is: not UTF-8, and all that mountinfo escapes.
            28 => path.extend_from_slice(ODD),
            29..33 => path.push(b'd'),
            33 => path.extend_from_slice(b"a_name_too_long_for_a_slot_of_the_cache"),
            34 if self.one_in(3) => path.extend([b'x'; 255]),
            35 if self.one_in(3) => path.extend([b'y'; 256]),
            36..38 => path.push(b'.'),
            _ => path.extend_from_slice(b".."),
        }
    }

    pub(super) fn target(&mut self) -> Text {
        match self.rng.u8(..40) {
            0 => Text(Vec::new()),
            1 => Text(b"/".to_vec()),
            2 => Text([&b"./".repeat(70), &self.path().0[..]].concat()),
            3 => Text(b"./".repeat(self.pick(&[2047, 2048]))),
            _ => self.path(),
        }
    }
}

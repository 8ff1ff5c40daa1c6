//! Images of rich results, drawn in the terminal or saved.
//!
//! Images come from the program and are not trusted: only base64 that was decoded reaches the terminal, in the form that its protocol frames.

use std::env;
use std::fs::File;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use clap::ValueEnum;
use codebox_core::{CancelToken, MimeBundle, RunReport};

use crate::messages::Messages;
use crate::render::shown_one;
use crate::streams::{Delivery, Streams};

mod protocol;

use protocol::Protocol;

/// Maximum number of names that are tried for a file.
const MAX_NAMES: u32 = 10_000;

/// Destination of images.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Show {
    /// The terminal if it can draw images, and else files
    Auto,
    /// A terminal with the protocol of kitty
    Kitty,
    /// A terminal with the protocol of iTerm2
    Iterm,
    /// A terminal with sixel graphics
    Sixel,
    /// Files in the working directory
    Save,
}

/// Form of an image file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Png,
    Jpeg,
}

impl Format {
    /// Returns the format of a file, by its first bytes.
    fn of(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [0x89, b'P', b'N', b'G', ..] => Some(Self::Png),
            [0xFF, 0xD8, 0xFF, ..] => Some(Self::Jpeg),
            _ => None,
        }
    }

    fn extension(self) -> &'static str {
        match self {
            Self::Png => "png",
            Self::Jpeg => "jpg",
        }
    }
}

/// Prints the objects that a program has shown, with its images drawn or saved. Texts are printed as the output of the program is.
pub(crate) fn show(report: &RunReport, show: Show, messages: Messages) -> Delivery {
    let protocol = match show {
        Show::Auto if io::stdout().is_terminal() => Protocol::of_terminal(|name| env::var(name).ok()),
        Show::Auto | Show::Save => None,
        Show::Kitty => Some(Protocol::Kitty),
        Show::Iterm => Some(Protocol::Iterm),
        Show::Sixel => Some(Protocol::Sixel),
    };
    for result in &report.results {
        let Some((bytes, format)) = image_of(result) else {
            match print(&shown_one(result).unwrap_or_default()) {
                Delivery::Complete => continue,
                failed => return failed,
            }
        };
        if let Some(drawn) = protocol.and_then(|protocol| protocol.drawn(&bytes, format)) {
            let mut stdout = io::stdout().lock();
            if let Err(error) = stdout.write_all(&[&drawn[..], b"\n"].concat()).and_then(|()| stdout.flush()) {
                return Delivery::Failed(error);
            }
            continue;
        }
        match save(&bytes, format, Path::new(".")) {
            Ok(name) => messages.note(format!("saved an image as {name}")),
            Err(error) => messages.note(format!("cannot save an image in the working directory: {error}")),
        }
    }
    Delivery::Complete
}

/// Prints a text of the guest.
pub(crate) fn print(text: &str) -> Delivery {
    let mut streams = Streams::live_until(CancelToken::new());
    if let Some(stdout) = &mut streams.io.stdout {
        // An error is recorded by the sink.
        let _ = stdout.write(text.as_bytes());
    }
    streams.finish()
}

/// Returns the image of a result.
fn image_of(result: &MimeBundle) -> Option<(Vec<u8>, Format)> {
    let text = ["image/png", "image/jpeg"].into_iter().find_map(|kind| result.data.get(kind)?.as_str())?;
    let bytes = BASE64.decode(text.trim()).ok()?;
    let format = Format::of(&bytes)?;
    Some((bytes, format))
}

/// Saves an image as a new file, and returns its name. No file is replaced.
fn save(bytes: &[u8], format: Format, dir: &Path) -> io::Result<String> {
    for number in 1..=MAX_NAMES {
        let name = format!("codebox-{number}.{}", format.extension());
        match File::create_new(dir.join(&name)) {
            Ok(mut file) => return file.write_all(bytes).map(|()| name),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other(format!("there are {MAX_NAMES} images already")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_recognised_by_their_bytes() {
        let of = |kind: &str, text: &str| {
            let data = [(kind.to_owned(), text.into())].into_iter().collect();
            image_of(&MimeBundle { data, ..MimeBundle::default() })
        };
        assert_eq!(of("image/png", "iVBORw==\n"), Some((b"\x89PNG".to_vec(), Format::Png)));
        assert_eq!(of("image/jpeg", "/9j/"), Some((vec![0xFF, 0xD8, 0xFF], Format::Jpeg)));
        // An escape sequence, another file, and a form that is no image.
        for (kind, text) in [("image/png", "\x1b]0;x\x07"), ("image/png", "AAAA"), ("text/plain", "iVBORw==")] {
            assert_eq!(of(kind, text), None, "{text:?}");
        }
    }

    #[test]
    fn saved_images_replace_no_file() {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::write(dir.path().join("codebox-1.png"), "mine").expect("it is ours");
        assert_eq!(save(b"a", Format::Png, dir.path()).expect("it is saved"), "codebox-2.png");
        assert_eq!(save(b"b", Format::Png, dir.path()).expect("it is saved"), "codebox-3.png");
        assert_eq!(std::fs::read(dir.path().join("codebox-1.png")).expect("it is ours"), b"mine");
        assert!(save(b"a", Format::Jpeg, &dir.path().join("missing")).is_err());
    }
}

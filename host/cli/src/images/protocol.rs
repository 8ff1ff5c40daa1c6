//! Protocols with which terminals draw images.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use icy_sixel::SixelImage;

use super::Format;

/// Maximum length of a part of an image in the protocol of kitty, in characters.
const PART: usize = 4096;

/// Maximum number of pixels of an image that is converted to sixels.
const MAX_PIXELS: usize = 16 << 20;

/// Maximum memory of the decoder of PNG files in bytes.
const MAX_MEMORY: usize = 256 << 20;

/// Protocol of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    /// <https://sw.kovidgoyal.net/kitty/graphics-protocol/>
    Kitty,
    /// <https://iterm2.com/documentation-images.html>
    Iterm,
    /// The graphics of DEC terminals.
    Sixel,
}

impl Protocol {
    /// Returns the protocol of the terminal of this process, by the variables that terminals set.
    pub(super) fn of_terminal(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let (term, program) = (variable("TERM").unwrap_or_default(), variable("TERM_PROGRAM").unwrap_or_default());
        let has_name = |names: &[&str]| names.iter().any(|name| term.contains(name) || program.contains(name));
        // A multiplexer does not pass these protocols on.
        if variable("TMUX").is_some() || term.starts_with("screen") {
            return None;
        }
        if variable("KITTY_WINDOW_ID").is_some() || has_name(&["kitty", "ghostty"]) {
            return Some(Self::Kitty);
        }
        if variable("LC_TERMINAL").is_some_and(|name| name == "iTerm2") || has_name(&["iTerm", "WezTerm", "mintty"]) {
            return Some(Self::Iterm);
        }
        has_name(&["foot", "mlterm", "contour", "yaft", "sixel"]).then_some(Self::Sixel)
    }

    /// Returns the text that draws an image; `None` if the protocol does not have its format, or if it cannot be decoded.
    pub(super) fn drawn(self, bytes: &[u8], format: Format) -> Option<Vec<u8>> {
        match (self, format) {
            (Self::Kitty, Format::Png) => Some(kitty(&BASE64.encode(bytes))),
            (Self::Kitty, Format::Jpeg) => None,
            (Self::Iterm, _) => {
                let (size, text) = (bytes.len(), BASE64.encode(bytes));
                Some(format!("\x1b]1337;File=inline=1;size={size};preserveAspectRatio=1:{text}\x07").into_bytes())
            }
            (Self::Sixel, Format::Png) => sixel(bytes),
            (Self::Sixel, Format::Jpeg) => None,
        }
    }
}

/// Returns an image of the protocol of kitty, in parts. The terminal sends no answer.
fn kitty(text: &str) -> Vec<u8> {
    let mut drawn = Vec::with_capacity(text.len() + text.len() / 256);
    let mut control = "a=T,f=100,q=2,";
    let mut rest = text;
    loop {
        let (part, after) = rest.split_at(rest.len().min(PART));
        let has_more = u8::from(!after.is_empty());
        drawn.extend(format!("\x1b_G{control}m={has_more};{part}\x1b\\").into_bytes());
        if after.is_empty() {
            return drawn;
        }
        (control, rest) = ("", after);
    }
}

fn sixel(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut decoder = png::Decoder::new_with_limits(std::io::Cursor::new(bytes), png::Limits { bytes: MAX_MEMORY });
    decoder.set_transformations(png::Transformations::normalize_to_color8() | png::Transformations::ALPHA);
    let mut reader = decoder.read_info().ok()?;
    let (width, height) = (reader.info().width as usize, reader.info().height as usize);
    if width.checked_mul(height)? > MAX_PIXELS {
        return None;
    }
    let mut pixels = vec![0; reader.output_buffer_size()?];
    let info = reader.next_frame(&mut pixels).ok()?;
    pixels.truncate(info.buffer_size());
    if info.color_type == png::ColorType::GrayscaleAlpha {
        pixels = pixels.chunks_exact(2).flat_map(|pixel| [pixel[0], pixel[0], pixel[0], pixel[1]]).collect();
    }
    SixelImage::try_from_rgba(pixels, width, height).ok()?.encode().ok().map(String::into_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminals_are_recognised() {
        let of = |variables: &[(&str, &str)]| {
            let find =
                |name: &str| variables.iter().find(|(one, _)| *one == name).map(|(_, value)| (*value).to_owned());
            Protocol::of_terminal(find)
        };
        assert_eq!(of(&[("TERM", "xterm-kitty")]), Some(Protocol::Kitty));
        assert_eq!(of(&[("TERM", "xterm-256color"), ("TERM_PROGRAM", "iTerm.app")]), Some(Protocol::Iterm));
        assert_eq!(of(&[("TERM", "foot")]), Some(Protocol::Sixel));
        assert_eq!(of(&[("TERM", "xterm-256color")]), None);
        assert_eq!(of(&[("TERM", "screen"), ("KITTY_WINDOW_ID", "1")]), None);
        assert_eq!(of(&[]), None);
    }

    #[test]
    fn images_have_the_form_of_the_protocol() {
        assert_eq!(kitty("abc"), b"\x1b_Ga=T,f=100,q=2,m=0;abc\x1b\\");
        let long = kitty(&"x".repeat(PART + 1));
        assert!(long.ends_with(b"\x1b_Gm=0;x\x1b\\"));
        let drawn = Protocol::Iterm.drawn(b"abc", Format::Jpeg).expect("an image");
        assert_eq!(drawn, b"\x1b]1337;File=inline=1;size=3;preserveAspectRatio=1:YWJj\x07");
        assert_eq!(Protocol::Kitty.drawn(b"abc", Format::Jpeg), None);
    }

    #[test]
    fn images_become_sixels() {
        for color in
            [png::ColorType::Rgb, png::ColorType::Rgba, png::ColorType::Grayscale, png::ColorType::GrayscaleAlpha]
        {
            let mut file = Vec::new();
            let mut encoder = png::Encoder::new(&mut file, 4, 3);
            encoder.set_color(color);
            let mut writer = encoder.write_header().expect("it is ours");
            writer.write_image_data(&vec![200; 12 * color.samples()]).expect("it is ours");
            writer.finish().expect("it is ours");
            let drawn = Protocol::Sixel.drawn(&file, Format::Png).expect("an image");
            assert!(drawn.starts_with(b"\x1bP") && drawn.ends_with(b"\x1b\\"), "{color:?}");
            // A file that is cut off.
            file.truncate(40);
            assert_eq!(Protocol::Sixel.drawn(&file, Format::Png), None);
        }
    }
}

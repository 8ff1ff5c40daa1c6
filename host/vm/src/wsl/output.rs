//! Output of `wsl.exe`.

use crate::error::{Layer, VmError};
use crate::program::Ended;
use crate::wsl::INSTALL;

/// Text of the program itself, which it writes to standard output, also about failures. It is in the language of the user; codes are not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Answer {
    text: String,
    /// Components of the code of a failure, such as `Wsl/Service/CreateInstance/E_FAIL`.
    code: Vec<String>,
}

impl Answer {
    pub(super) fn of(ended: &Ended) -> Self {
        let text = decoded(&ended.stdout);
        let code =
            text.split(|c: char| c.is_whitespace() || matches!(c, ':' | '：')).rfind(|word| word.starts_with("Wsl/"));
        let code = code.map(|code| code.split('/').map(str::to_owned).collect()).unwrap_or_default();
        Self { text, code }
    }

    /// Returns the lines that are not empty. Older versions end a line with two carriage returns.
    pub(super) fn lines(&self) -> Vec<String> {
        self.text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect()
    }

    /// Returns true if the code ends with this component. Those before it differ between versions.
    pub(super) fn has_code(&self, last: &str) -> bool {
        self.code.last().is_some_and(|one| one == last)
    }

    /// Returns the failure that the text describes.
    pub(super) fn failure(&self, ended: &Ended) -> VmError {
        let last = self.code.last().map_or("", String::as_str);
        let is_disk = self.code.iter().any(|part| part == "MountDisk" || part == "MountVhd");
        let known = FAILURES.iter().find(|(code, needs_disk, ..)| *code == last && (!needs_disk || is_disk));
        let (layer, fix) = known.map_or((Layer::Vm, "see codebox vm logs"), |(_, _, layer, fix)| (*layer, *fix));
        // Standard error has the reasons of programs in the machine.
        let first = |text: &str| text.lines().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned);
        let reason = first(&self.text).filter(|line| !line.contains("Wsl/")).or_else(|| first(&decoded(&ended.stderr)));
        let status = || ended.status.map_or_else(|| "a signal".to_owned(), |status| format!("status {status}"));
        let reason = reason.unwrap_or_else(|| format!("wsl.exe has ended with {}", status()));
        let reason = match self.code.is_empty() {
            true => reason,
            false => format!("{reason} ({})", self.code.join("/")),
        };
        VmError::new(layer, reason, fix)
    }
}

/// Failures by the last component of their code, if it has to be about a disk, the part of the tier, and the remedy.
const FAILURES: [(&str, bool, Layer, &str); 15] = [
    ("HCS_E_HYPERV_NOT_INSTALLED", false, Layer::Hypervisor, VIRTUALIZATION),
    ("HCS_E_SERVICE_NOT_AVAILABLE", false, Layer::Hypervisor, VIRTUALIZATION),
    ("ERROR_NOT_SUPPORTED", false, Layer::Hypervisor, VIRTUALIZATION),
    ("WSL_E_VIRTUAL_MACHINE_PLATFORM_REQUIRED", false, Layer::Hypervisor, INSTALL),
    ("WSL_E_WSL_OPTIONAL_COMPONENT_REQUIRED", false, Layer::Hypervisor, INSTALL),
    ("ERROR_DISK_FULL", false, Layer::Vm, "free disk space"),
    ("0x80070070", false, Layer::Vm, "free disk space"),
    ("WSL_E_IMPORT_FAILED", false, Layer::Image, "free disk space, or fetch the image again with codebox vm reset"),
    ("WSL_E_NOT_A_LINUX_DISTRO", false, Layer::Image, "fetch the image again with codebox vm reset"),
    ("ERROR_FILE_NOT_FOUND", true, Layer::Vm, DAMAGED),
    ("WSL_E_DISK_CORRUPTED", false, Layer::Vm, DAMAGED),
    ("0x80070570", false, Layer::Vm, DAMAGED),
    ("ERROR_SHARING_VIOLATION", false, Layer::Vm, "end the program that uses its disk, or restart Windows"),
    ("E_ILLEGAL_STATE_CHANGE", false, Layer::Vm, "run codebox vm reset"),
    ("E_UNEXPECTED", false, Layer::Hypervisor, "restart Windows"),
];

const VIRTUALIZATION: &str =
    "run wsl.exe --install --no-distribution as an administrator, and turn virtualization on in the firmware";

const DAMAGED: &str = "its disk is damaged: codebox vm reset makes a new one, without its images";

/// Codes of calls that a restart of the service has ended.
const PASSING: [&str; 6] = [
    "RPC_S_CALL_FAILED",
    "RPC_E_DISCONNECTED",
    "E_ABORT",
    "HCS_E_TERMINATED",
    "HCS_E_CONNECTION_TIMEOUT",
    "E_UNEXPECTED",
];

/// Returns true for a call that may succeed if it is repeated.
pub(super) fn is_passing(ended: &Ended) -> bool {
    let answer = Answer::of(ended);
    ended.status != Some(0) && PASSING.iter().any(|code| answer.has_code(code))
}

/// Returns the first number of a line.
pub(super) fn first_number(line: &str) -> Option<u32> {
    let start = line.find(|c: char| c.is_ascii_digit())?;
    let digits = &line[start..];
    digits[..digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len())].parse().ok()
}

/// Decodes text of the program: UTF-8 if it knows `WSL_UTF8`, and UTF-16 otherwise. A Latin letter of the latter has a zero byte.
fn decoded(bytes: &[u8]) -> String {
    let bytes = bytes.strip_prefix(b"\xff\xfe").unwrap_or(bytes);
    if !bytes.contains(&0) {
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        return String::from_utf8_lossy(bytes).into_owned();
    }
    let units: Vec<u16> = bytes.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect();
    String::from_utf16_lossy(&units)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(status: i32, stdout: &str) -> Ended {
        Ended { status: Some(status), stdout: stdout.as_bytes().to_vec(), stderr: Vec::new() }
    }

    fn in_utf16(text: &str) -> Vec<u8> {
        text.encode_utf16().flat_map(u16::to_le_bytes).collect()
    }

    #[test]
    fn both_encodings_are_read() {
        let text = "Ubuntu-22.04\r\r\ncodebox-01020304\r\n\r\n";
        let names = ["Ubuntu-22.04", "codebox-01020304"];
        for stdout in [text.as_bytes().to_vec(), in_utf16(text), [b"\xff\xfe".to_vec(), in_utf16(text)].concat()] {
            assert_eq!(Answer::of(&Ended { status: Some(0), stdout, stderr: Vec::new() }).lines(), names);
        }
        assert_eq!(decoded(&in_utf16("Fehlercode: ü")), "Fehlercode: ü");
        // A text that is cut.
        assert_eq!(decoded(&in_utf16("ab")[..3]), "a");
    }

    /// Texts of WSL 0.64 to 2.9 in several languages.
    #[test]
    fn codes_are_found_in_all_languages() {
        for (text, code) in [
            (
                "There is no distribution with the supplied name.\r\nError code: Wsl/Service/WSL_E_DISTRO_NOT_FOUND\r\n",
                "WSL_E_DISTRO_NOT_FOUND",
            ),
            (
                "Es ist keine Distribution …\r\nFehlercode: Wsl/Service/WSL_E_DISTRO_NOT_FOUND\r\n",
                "WSL_E_DISTRO_NOT_FOUND",
            ),
            ("…\r\nCode d'erreur\u{a0}: Wsl/Service/RegisterDistro/ERROR_ALREADY_EXISTS\r\n", "ERROR_ALREADY_EXISTS"),
            ("…\r\n错误代码：Wsl/Service/CreateInstance/MountVhd/HCS/ERROR_FILE_NOT_FOUND\r\n", "ERROR_FILE_NOT_FOUND"),
            ("…\r\nエラー コード: Wsl/Service/0x80070070\r\n", "0x80070070"),
        ] {
            assert!(Answer::of(&ended(-1, text)).has_code(code), "{text}");
        }
        assert!(!Answer::of(&ended(0, "The operation completed successfully. \r\n")).has_code("E_FAIL"));
    }

    #[test]
    fn failures_name_their_layer() {
        for (text, layer, reason, fix) in [
            (
                "WSL2 is unable to start since virtualization is not enabled on this machine.\r\nError code: Wsl/Service/RegisterDistro/CreateVm/HCS/HCS_E_HYPERV_NOT_INSTALLED\r\n",
                Layer::Hypervisor,
                "WSL2 is unable to start since virtualization is not enabled on this machine. (Wsl/Service/RegisterDistro/CreateVm/HCS/HCS_E_HYPERV_NOT_INSTALLED)",
                "virtualization",
            ),
            (
                "Failed to attach disk 'C:\\x\\ext4.vhdx' to WSL2: The system cannot find the file specified. \r\nError code: Wsl/Service/CreateInstance/MountDisk/HCS/ERROR_FILE_NOT_FOUND\r\n",
                Layer::Vm,
                "Failed to attach disk 'C:\\x\\ext4.vhdx' to WSL2: The system cannot find the file specified. (Wsl/Service/CreateInstance/MountDisk/HCS/ERROR_FILE_NOT_FOUND)",
                "reset",
            ),
            (
                "The system cannot find the file specified. \r\nError code: Wsl/ERROR_FILE_NOT_FOUND\r\n",
                Layer::Vm,
                "The system cannot find the file specified. (Wsl/ERROR_FILE_NOT_FOUND)",
                "logs",
            ),
            (
                "There is not enough space on the disk. \r\nError code: Wsl/Service/RegisterDistro/0x80070070\r\n",
                Layer::Vm,
                "There is not enough space on the disk. (Wsl/Service/RegisterDistro/0x80070070)",
                "disk space",
            ),
            ("", Layer::Vm, "wsl.exe has ended with status -1", "logs"),
        ] {
            let ended = ended(-1, text);
            let error = Answer::of(&ended).failure(&ended);
            assert_eq!((error.layer, error.reason.as_str()), (layer, reason));
            assert!(error.fix.contains(fix), "{error:?}");
        }
        let import = Ended {
            stderr: b"bsdtar: Error opening archive: Unrecognized archive format\n".to_vec(),
            ..ended(-1, "Error code: Wsl/Service/RegisterDistro/WSL_E_IMPORT_FAILED\r\n")
        };
        let error = Answer::of(&import).failure(&import);
        assert!(error.reason.starts_with("bsdtar: Error opening archive"), "{error:?}");
        assert_eq!(error.layer, Layer::Image);
    }

    #[test]
    fn versions_are_read_in_all_languages() {
        for (line, version) in [
            ("WSL version: 2.6.3.0", Some(2)),
            ("WSL-Version: 1.2.5.0", Some(1)),
            ("WSL 版本: 2,0", Some(2)),
            ("", None),
        ] {
            assert_eq!(first_number(line), version, "{line}");
        }
    }

    #[test]
    fn interrupted_calls_are_repeated() {
        assert!(is_passing(&ended(-1, "x\r\nError code: Wsl/Service/RPC_S_CALL_FAILED\r\n")));
        assert!(!is_passing(&ended(-1, "x\r\nError code: Wsl/Service/WSL_E_DISTRO_NOT_FOUND\r\n")));
        assert!(!is_passing(&ended(0, "Wsl/Service/E_ABORT")));
    }
}

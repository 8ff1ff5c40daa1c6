# Formula for a tap. Filled in by `cargo xtask dist`.
class Codebox < Formula
  desc "@SUMMARY@"
  homepage "@URL@"
  url "@URL@/codebox-@VERSION@-x86_64-linux.tar.gz"
  version "@VERSION@"
  sha256 "@SHA256@"
  license "Apache-2.0"

  depends_on :linux
  depends_on arch: :x86_64

  def install
    # The programs find the runtimes in lib/codebox beside the directory of the programs.
    prefix.install "bin", "lib", "share"
  end

  test do
    ENV["CODEBOX_HOME"] = testpath
    assert_equal "42\n", shell_output("#{bin}/codebox run -c 'print(6 * 7)'")
  end
end

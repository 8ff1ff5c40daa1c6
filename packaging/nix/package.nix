# Package of the archive of a release. Filled in by `cargo xtask dist`.
{ lib, stdenvNoCC, fetchurl }:

stdenvNoCC.mkDerivation {
  pname = "codebox";
  version = "@VERSION@";

  src = fetchurl {
    url = "@URL@/codebox-@VERSION@-x86_64-linux.tar.gz";
    sha256 = "@SHA256@";
  };

  dontConfigure = true;
  dontBuild = true;
  # The programs are linked statically, and the manifests list the sizes and digests of the runtimes.
  dontFixup = true;

  installPhase = ''
    runHook preInstall
    mkdir -p $out
    cp -r bin lib share $out/
    runHook postInstall
  '';

  meta = {
    description = "@SUMMARY@";
    license = lib.licenses.asl20;
    platforms = [ "x86_64-linux" ];
    mainProgram = "codebox";
    sourceProvenance = [ lib.sourceTypes.binaryNativeCode ];
  };
}

#!/bin/sh
# Install Debian's DICOM tools for the conformance tests: dciodvfy (dicom3tools), dsrdump and dcmdump (dcmtk),
# DicomSRValidator (PixelMed, on Java) and Orthanc with its DICOMweb plugin.
#
#   sh scripts/install_dicom_tools.sh           as root: apt-get installs them; the programs are on the PATH
#   sh scripts/install_dicom_tools.sh [FOLDER]  else: the packages are unpacked in FOLDER (default .dicom-tools beside
#                                               .venv), nothing outside it is touched; the programs are in FOLDER/bin,
#                                               Orthanc's plugins in FOLDER/root/usr/share/orthanc/plugins
#
# Debian and its relatives only. No service is left running: tests start Orthanc themselves.
set -eu

packages="dicom3tools dcmtk pixelmed-apps default-jre-headless orthanc orthanc-dicomweb"
programs="dciodvfy dsrdump dcmdump DicomSRValidator Orthanc"
plugins=/usr/share/orthanc/plugins

PATH="$PATH:/usr/sbin"
missing=""
for program in $programs; do
    command -v "$program" >/dev/null 2>&1 || missing="$missing $program"
done
if [ -z "$missing" ] && [ -e "$plugins/libOrthancDicomWeb.so" ] && [ $# = 0 ]; then
    echo "the DICOM tools are installed: $programs"
    exit 0
fi
if ! command -v apt-get >/dev/null 2>&1; then
    echo "apt-get is missing. Install dicom3tools, dcmtk, PixelMed and Orthanc by hand, with the programs on the PATH." >&2
    exit 1
fi

if [ "$(id -u)" = 0 ] && [ $# = 0 ]; then
    apt-get update -qq
    # shellcheck disable=SC2086
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $packages >/dev/null
    # The package starts Orthanc with open ports where there is a service manager; tests have one of their own.
    if command -v systemctl >/dev/null 2>&1; then
        systemctl disable --now orthanc >/dev/null 2>&1 || true
    fi
    for program in $programs; do
        command -v "$program"
    done
    exit 0
fi

folder=${1:-"$(cd "$(dirname "$0")/.." && pwd)/.dicom-tools"}
mkdir -p "$folder/lists/partial" "$folder/debs/partial" "$folder/bin"
folder=$(cd "$folder" && pwd)
root="$folder/root"
own="-o Dir::State::lists=$folder/lists -o Dir::Cache=$folder -o Dir::Cache::archives=$folder/debs -o APT::Sandbox::User="

# shellcheck disable=SC2086
{
    apt-get $own -qq update
    # -s only plans: it names what is missing here, and needs no rights. What is here stays where it is.
    needed=$(apt-get $own -s --no-install-recommends install $packages | awk '$1 == "Inst" { print $2 }')
    (cd "$folder/debs" && apt-get $own -qq download $needed)
}
for package in "$folder"/debs/*.deb; do
    dpkg-deb -x "$package" "$root"
done
rm -rf "$folder/debs" "$folder/lists" "$folder"/*.bin
# Links to /etc and /usr point into what was unpacked, where it is there.
find "$root" -type l | while read -r link; do
    target=$(readlink "$link")
    case $target in /*) [ -e "$root$target" ] && ln -sfn "$root$target" "$link" ;; esac
done || true

cat >"$folder/bin/run" <<'WRAPPER'
#!/bin/sh
root=$(cd "$(dirname "$0")/../root" && pwd)
libraries=$(find "$root/lib" "$root/usr/lib" -name '*.so*' -not -path '*/jvm/*' -not -path '*/orthanc/*' \
    -exec dirname {} \; 2>/dev/null | sort -u | tr '\n' ':')
export LD_LIBRARY_PATH="$libraries${LD_LIBRARY_PATH:-}"
dictionary=$(find "$root/usr/share" -name dicom.dic 2>/dev/null | head -n 1)
[ -z "$dictionary" ] || export DCMDICTPATH="$dictionary"
name=$(basename "$0")
if [ "$name" = DicomSRValidator ]; then
    jars="$root/usr/share/java/*"
    java=$(find "$root/usr/lib/jvm" -path '*/bin/java' 2>/dev/null | head -n 1)
    exec "${java:-java}" -cp "$jars" com.pixelmed.validate.DicomSRValidator "$@"
fi
for place in "$root/usr/bin" "$root/usr/sbin" /usr/bin /usr/sbin; do
    [ ! -x "$place/$name" ] || exec "$place/$name" "$@"
done
echo "$name was not unpacked" >&2
exit 127
WRAPPER
chmod +x "$folder/bin/run"
for program in $programs; do
    ln -sfn run "$folder/bin/$program"
done
echo "the DICOM tools are in $folder/bin: $programs"

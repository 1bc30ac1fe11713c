#!/bin/sh
# Install Debian's chromium for the browser tests, the screenshots and the viewer's benchmark.
#
#   sh scripts/install_chromium.sh           as root: apt-get installs it; the program is `chromium` on the PATH
#   sh scripts/install_chromium.sh [FOLDER]  else: the packages are unpacked in FOLDER (default .chromium beside
#                                            .venv), nothing outside it is touched; the program is FOLDER/chromium
#
# Debian and its relatives only. Elsewhere install Chromium or Chrome and set PSIMIL_CHROMIUM to the program.
set -eu

packages="chromium fonts-dejavu-core"

if command -v chromium >/dev/null 2>&1; then
    echo "chromium is installed: $(command -v chromium)"
    exit 0
fi
if ! command -v apt-get >/dev/null 2>&1; then
    echo "apt-get is missing. Install Chromium by hand and set PSIMIL_CHROMIUM to the program." >&2
    exit 1
fi

if [ "$(id -u)" = 0 ] && [ $# = 0 ]; then
    apt-get update -qq
    # shellcheck disable=SC2086
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $packages >/dev/null
    chromium --version
    exit 0
fi

folder=${1:-"$(cd "$(dirname "$0")/.." && pwd)/.chromium"}
mkdir -p "$folder/lists/partial" "$folder/debs/partial"
folder=$(cd "$folder" && pwd)
own="-o Dir::State::lists=$folder/lists -o Dir::Cache=$folder -o Dir::Cache::archives=$folder/debs -o APT::Sandbox::User="

# shellcheck disable=SC2086
{
    apt-get $own -qq update
    # -s only plans: it names what is missing here, and needs no rights.
    missing=$(apt-get $own -s --no-install-recommends install $packages | awk '$1 == "Inst" { print $2 }')
    (cd "$folder/debs" && apt-get $own -qq download $missing)
}
for package in "$folder"/debs/*.deb; do
    dpkg-deb -x "$package" "$folder/root"
done
rm -rf "$folder/debs" "$folder/lists"

cat >"$folder/chromium" <<'WRAPPER'
#!/bin/sh
root=$(cd "$(dirname "$0")/root" && pwd)
libraries=$(find "$root/lib" "$root/usr/lib" -name '*.so*' -exec dirname {} \; 2>/dev/null | sort -u | tr '\n' ':')
export LD_LIBRARY_PATH="$libraries${LD_LIBRARY_PATH:-}"
export XDG_DATA_DIRS="$root/usr/share:${XDG_DATA_DIRS:-/usr/local/share:/usr/share}"
[ -e /etc/fonts/fonts.conf ] || export FONTCONFIG_SYSROOT="$root"
exec "$root/usr/lib/chromium/chromium" "$@"
WRAPPER
chmod +x "$folder/chromium"
# Chromium's own sandbox helper is setuid root and cannot be unpacked as such, so it runs without.
"$folder/chromium" --no-sandbox --version

#!/bin/sh
# Take promtool out of its Debian package, without installing it: no daemon starts.
#
# Usage: tools/fetch_promtool.sh FOLDER
set -eu

folder=$1
if ! command -v apt-get >/dev/null 2>&1; then
	echo "tools: this is no Debian: put promtool into $folder/bin yourself" >&2
	exit 1
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work" # apt fetches as a user of its own
fetch() { # of a package of its own (Debian 13), or of Prometheus (Debian 12)
	for package in promtool prometheus; do
		(cd "$work" && apt-get download -qq "$package" 2>/dev/null) && return 0
	done
	return 1
}
fetch || { apt-get update -qq && fetch; } || {
	echo "tools: apt-get finds neither the package promtool nor prometheus" >&2
	exit 1
}
echo "tools: promtool, from the Debian package $package (downloaded, not installed)"
dpkg-deb -x "$work/$package"_*.deb "$work/unpacked"
mkdir -p "$folder/bin"
cp "$work/unpacked/usr/bin/promtool" "$folder/bin/promtool"

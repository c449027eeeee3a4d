#!/bin/sh
# Take promtool out of Debian's Prometheus package, without installing it: no daemon starts.
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
echo "tools: promtool, from the Debian package prometheus (downloaded, not installed)"
(
	cd "$work"
	apt-get download -qq prometheus 2>/dev/null ||
		{ apt-get update -qq && apt-get download -qq prometheus; }
	dpkg-deb -x prometheus_*.deb unpacked
)
mkdir -p "$folder/bin"
cp "$work/unpacked/usr/bin/promtool" "$folder/bin/promtool"

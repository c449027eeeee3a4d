#!/bin/sh
# Take prometheus and promtool out of their Debian packages, without installing them: no daemon starts.
#
# Usage: tools/fetch_prometheus.sh FOLDER
set -eu

folder=$1
if ! command -v apt-get >/dev/null 2>&1; then
	echo "tools: this is no Debian: put prometheus and promtool into $folder/bin yourself" >&2
	exit 1
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work" # apt fetches as a user of its own
fetch() { # promtool is a package of its own in Debian 13, and in Prometheus's in Debian 12
	(cd "$work" && apt-get download -qq prometheus 2>/dev/null) || return 1
	(cd "$work" && apt-get download -qq promtool 2>/dev/null) || true
}
fetch || { apt-get update -qq && fetch; } || {
	echo "tools: apt-get does not find the package prometheus" >&2
	exit 1
}
mkdir -p "$folder/bin"
for package in "$work"/*.deb; do
	dpkg-deb -x "$package" "$work/unpacked"
done
for program in prometheus promtool; do
	if [ ! -x "$work/unpacked/usr/bin/$program" ]; then
		echo "tools: the Debian packages hold no $program" >&2
		exit 1
	fi
	cp "$work/unpacked/usr/bin/$program" "$folder/bin/$program"
done
echo "tools: prometheus and promtool, from Debian packages (downloaded, not installed)"

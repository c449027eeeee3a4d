#!/bin/sh
# Install what gpugauge's build and tests need, into the system (Debian packages) and a venv.
#
# Usage: tools/setup.sh VENV
set -eu

venv=$1

# package:program that shows it is there:reason
needed="
gcc:gcc:compiles the simulated driver
libc6-dev:/usr/include/stdio.h:its headers
clang:clang:compiles the BPF programs
runc:runc:runs the containers of the tests
bpftrace:bpftrace:probes the same functions beside gpugauge in a test
gcc-multilib:/usr/lib32/crt1.o:builds a 32-bit program for a test
openssl:openssl:makes the certificate of a test server
util-linux:unshare:makes their mount name spaces
curl:curl:runs what the documents say
iproute2:ip:shows who listens on a port
"

missing=""
for line in $(echo "$needed" | tr ' ' '_'); do
	package=${line%%:*}
	rest=${line#*:}
	program=${rest%%:*}
	reason=$(echo "${rest#*:}" | tr '_' ' ')
	if [ "${program#/}" != "$program" ]; then
		[ -e "$program" ] && continue
	elif command -v "$program" >/dev/null 2>&1 || [ -x "/usr/sbin/$program" ]; then
		continue
	fi
	echo "setup: needs the Debian package $package ($reason)"
	missing="$missing $package"
done

if [ -n "$missing" ]; then
	if ! command -v apt-get >/dev/null 2>&1; then
		echo "setup: this is no Debian: install these yourself and run make again:$missing" >&2
		exit 1
	fi
	if [ "$(id -u)" != 0 ]; then
		echo "setup: not root: run \`sudo apt-get install$missing\` and run make again" >&2
		exit 1
	fi
	echo "setup: apt-get install$missing"
	export DEBIAN_FRONTEND=noninteractive
	apt-get update -qq
	# shellcheck disable=SC2086
	apt-get install -y -qq --no-install-recommends $missing >/dev/null
fi

if ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
	echo "setup: needs Python 3.11 or newer as python3" >&2
	exit 1
fi

echo "setup: Python packages into $venv"
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
# 25.1 is the first pip that knows dependency groups.
"$venv/bin/python" -m pip install -q --disable-pip-version-check "pip>=25.1"
"$venv/bin/python" -m pip install -q --disable-pip-version-check \
	-e '.[kubernetes]' --group dev

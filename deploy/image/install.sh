#!/bin/sh
# Make the folder of the image that holds gpugauge: a Python environment without pip, with the
# wheel of this source and the packages of requirements.txt, each checked by its hash.
# The Dockerfile runs it, and so do the tests of the image's layout.
#
# Usage: install.sh PYTHON FOLDER
#   PYTHON  an interpreter with pip and the packages of build.txt: builds the wheel
#   FOLDER  where the image has it; nothing may be there yet
set -eu

build_python=$1
folder=$2
image=$(cd "$(dirname "$0")" && pwd)
source=$(cd "$image/../.." && pwd)
wheels=$(mktemp -d)
trap 'rm -rf "$wheels"' EXIT

# The clang of ziglang, pinned by its hash, and not the base's: the objects depend on it alone.
GPUGAUGE_BPF_COMPILER=zig "$build_python" -m pip wheel --quiet --no-cache-dir \
	--no-build-isolation --no-deps --no-index --wheel-dir "$wheels" "$source"
"$build_python" "$source/tools/generate_sbom.py" --wheel "$wheels"/gpugauge-*.whl \
	--output "$wheels/sbom.cdx.json"

base_python=$("$build_python" -c 'import sys; print(sys._base_executable)')
"$base_python" -m venv --without-pip "$folder"
set -- "$build_python" -m pip --python "$folder/bin/python" install --quiet --no-compile \
	--no-deps --only-binary :all:
"$@" --require-hashes -r "$image/requirements.txt"
"$@" --no-index "$wheels"/gpugauge-*.whl
cp "$wheels/sbom.cdx.json" "$folder/"

# Programs of the packages that the agent does not start, and what only a shell at a desk needs.
keep=" gpugauge kubectl-gpugauge py-spy python python3 "
for program in "$folder"/bin/*; do
	name=${program##*/}
	case "$keep" in *" $name "*) continue ;; esac
	case "$name" in python3.*) continue ;; esac
	rm -f "$program"
done
# Never looked at by time stamp, which a copied layer does not keep.
"$folder/bin/python" -m compileall -q -j 1 --invalidation-mode unchecked-hash "$folder/lib"

#!/bin/sh
# Run a command where / is a mount point: containers and mount name spaces need one.
#
# In a chroot it is none. There the command gets a mount name space of its own, in
# which the folder is mounted over itself; it is gone with the command.
#
# Usage: tools/own_root.sh COMMAND ...
set -eu

if mountpoint -q / || [ "$(id -u)" != 0 ]; then
	exec "$@"
fi
export OWN_ROOT_FOLDER="${PWD}"
exec unshare --mount --propagation unchanged sh -eu -c '
	place=$(mktemp -d)
	mount --rbind / "$place"
	mount --make-rprivate "$place"
	exec chroot "$place" sh -c "cd \"\$OWN_ROOT_FOLDER\" && exec \"\$@\"" sh "$@"
' sh "$@"

#!/bin/sh
# Starts execd beside the sandbox's own entry point, which becomes this process.
#
# EXECD           execd to start; default: the one beside this script
# EXECD_ENVS      file that commands' variables are read from; made here so that it can be added to
# EXECD_INIT=1    execd stays in front: it starts the entry point, passes signals on and reaps. Also where this script
#                 is the container's first process: most programs do not end on SIGTERM as such
set -u

dir=$(dirname "$0")
execd=${EXECD:-$dir/execd}
: "${EXECD_ENVS:=$dir/.env}"
export EXECD_ENVS
if ! touch "$EXECD_ENVS" 2>/dev/null; then
    echo "bootstrap.sh: $EXECD_ENVS cannot be written; variables set later are not kept" >&2
fi

if [ $# -eq 0 ]; then
    set -- tail -f /dev/null
fi
if [ "${EXECD_INIT:-}" = 1 ] || [ $$ -eq 1 ]; then
    exec "$execd" --init -- "$@"
fi
"$execd" &
exec "$@"

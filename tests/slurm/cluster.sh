#!/usr/bin/env bash
# Be a Slurm cluster in namespaces, until standard input ends: cluster.sh FOLDER NODE...
#
# This is the first process of a process namespace: whatever ran in it ends with it, and so do its
# mounts and its network. FOLDER/etc has the configuration; it is removed in the end.
set -euo pipefail
folder=$1
nodes=("${@:2}")

end() {
  kill -KILL -1 2>/dev/null || true # all of this namespace but this shell
  umount -l "$folder/small" 2>/dev/null || true
  rm -rf --one-file-system -- "$folder"
}
trap end EXIT

start() { # NAME COMMAND...: start a daemon that writes to a log of its own
  "${@:2}" </dev/null >>"$folder/log/$1" 2>&1 &
}

expect() { # COMMAND...: wait until it succeeds
  local tries
  for ((tries = 0; tries < 1000; tries++)); do
    ! "$@" 2>/dev/null || return 0
    sleep 0.01
  done
  tail -n 5 "$folder"/log/* >&2
  exit 1
}

listening() { # PORT
  (exec 3<>"/dev/tcp/127.0.0.1/$1")
}

node() { # NAME: become a node: MPI libraries tell nodes apart by name, and meet in shared memory
  hostname "$1"
  mount -t tmpfs -o mode=1777 tmpfs /dev/shm
  exec slurmd -D -N "$1"
}
if [[ ${HPCCOLL_TEST_NODE-} ]]; then
  trap - EXIT
  node "$HPCCOLL_TEST_NODE"
fi

hostname controller
mount --bind "$folder/etc/hosts" /etc/hosts
# What /sys says of network devices is of the namespace in which it was mounted.
mount -t sysfs sysfs /sys
mount -t tmpfs -o size=64k,mode=1777 tmpfs "$folder/small"
ip link set lo up
# Slurm looks up names only where there is an address besides the loopback's.
ip link add outside type veth peer name inside
ip address add 10.78.0.1/24 dev outside
ip link set outside up
ip link set inside up
export SLURM_CONF=$folder/etc/slurm.conf
start munged munged --foreground --socket="$folder/run/munge" --key-file="$folder/etc/key" \
  --pid-file="$folder/run/munged.pid" --seed-file="$folder/run/seed"
expect test -S "$folder/run/munge"
start slurmctld slurmctld -D -c
# A daemon that comes before the controller listens tries again only after a second.
expect listening 6817
for name in "${nodes[@]}"; do
  HPCCOLL_TEST_NODE=$name start "$name" unshare --uts --mount --propagation private \
    "${BASH_SOURCE[0]}" "$folder"
done
echo ready
exec >/dev/null 2>&1
read -r || true

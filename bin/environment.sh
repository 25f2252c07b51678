# Sourced by bench, hpccoll and test: the environments under .venv/ and how ranks are started in them.
# shellcheck shell=bash

root=$(dirname "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")")
readonly root

fail() { # MESSAGE: end this script; what was found and what to do about it
  echo "hpccoll: $1" >&2
  exit 1
}

# --- Environments ------------------------------------------------------------------------------

environment() { # NAME [EXTRA]: make .venv/NAME unless it stands; NAME is openmpi, mpich or system
  local name=$1 extra=${2-} fingerprint
  fingerprint=$(fingerprint)
  is_ready "$name" "$extra" "$fingerprint" && return
  mkdir -p "$root/.venv"
  # One lock for all environments, since every editable installation writes to the same hpccoll.egg-info.
  (
    if command -v flock >/dev/null; then flock 9; fi
    is_ready "$name" "$extra" "$fingerprint" || set_up "$name" "$extra" "$fingerprint"
  ) 9>"$root/.venv/lock" || exit
}

fingerprint() { # Changes with everything that an installed environment is made from.
  local sources=("$root/pyproject.toml")
  [[ -e $root/setup.py ]] && sources+=("$root/setup.py")
  while IFS= read -r source; do sources+=("$source"); done < <(c_sources)
  # The path too: a virtual environment does not survive that its checkout is moved.
  { echo "$root"; cat -- "${sources[@]}"; } | sha256sum
}

c_sources() {
  find "$root/hpccoll" -name '*.[ch]' | LC_ALL=C sort
}

is_ready() { # NAME EXTRA FINGERPRINT
  local folder=$root/.venv/$1 stamp
  stamp=$folder/stamp${2:+-$2}
  [[ -x $folder/bin/python && -e $stamp && $(<"$stamp") == "$3" ]]
}

set_up() { # NAME EXTRA FINGERPRINT
  local name=$1 extra=$2 fingerprint=$3 python=${PYTHON:-python3} folder=$root/.venv/$1
  local extras=$extra output
  [[ $name == system ]] || extras=$name${extra:+,$extra}
  check_python "$python"
  echo "hpccoll: setting up .venv/$name (once)…" >&2
  # No stamp means that an earlier set-up ended half-way: trust nothing that it left.
  [[ -x $folder/bin/python && -e $folder/stamp ]] || "$python" -m venv --clear "$folder" \
    || fail "$python -m venv could not make $folder, see above"
  rm -f "$folder"/stamp*
  output=$("$folder/bin/python" -m pip install --quiet --no-input --disable-pip-version-check \
    --editable "$root${extras:+[$extras]}" 2>&1) || {
    echo "$output" >&2
    [[ -z $(c_sources) ]] || command -v cc >/dev/null \
      || echo "hpccoll: there is no C compiler here (Debian: apt install gcc python3-dev)" >&2
    fail "pip could not set up .venv/$name, see above; the next start tries again"
  }
  # One stamp each: an environment with the test tools also serves those who don't need them.
  echo "$fingerprint" >"$folder/stamp${extra:+-$extra}"
  echo "$fingerprint" >"$folder/stamp"
}

check_python() { # PYTHON
  command -v "$1" >/dev/null \
    || fail "there is no $1; install Python 3.10 or newer (Debian: apt install python3 python3-venv) or set PYTHON"
  "$1" -c 'import sys; sys.exit(sys.version_info < (3, 10))' \
    || fail "$("$1" --version) is too old; set PYTHON to a Python 3.10 or newer"
  # Debian ships venv without ensurepip, which is what it needs to put pip into an environment.
  "$1" -c 'import venv, ensurepip' 2>/dev/null \
    || fail "$1 lacks the venv module; install it (Debian: apt install python3-venv)"
}

# --- MPI ---------------------------------------------------------------------------------------

default_mpi() { # Print the environment to use where none is named: the machine's own MPI if it has one.
  if system_mpirun >/dev/null; then echo system; else echo openmpi; fi
}

system_mpirun() {
  command -v mpirun || command -v mpiexec
}

launcher() { # NAME: set mpirun and family to an environment's launcher and the library it belongs to
  family=$1
  if [[ $1 == system ]]; then
    mpirun=$(system_mpirun) || fail "there is no mpirun or mpiexec on PATH; load or install an MPI, or use --mpi openmpi"
    family=$(family "$mpirun")
    use_library "$mpirun" "$family"
  else
    # By path, and with no choice of library from outside: launcher and library must be the same MPI.
    mpirun=$root/.venv/$1/bin/mpirun
    unset MPI4PY_LIBMPI MPI4PY_MPIABI
  fi
}

launch() { # NAME RANKS: set launch_command, to be followed by the command that each rank runs
  local ranks=$2 mpirun family
  launcher "$1"
  launch_command=("$mpirun" -n "$ranks")
  [[ $family == openmpi ]] || return 0
  allow_root
  # Under a batch system the allocation decides how many ranks fit, and it may span several machines.
  [[ -n ${SLURM_JOB_ID-}${PBS_NODEFILE-}${LSB_JOBID-} ]] && return
  # Open MPI refuses more ranks than cores unless told, and must then not bind two of them to one core.
  ((ranks <= $(cores))) || launch_command+=(--map-by :OVERSUBSCRIBE --bind-to none)
}

allow_root() { # Open MPI refuses to run as root, which is who one is in a container, unless told twice.
  [[ $(id -u) != 0 ]] || export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
}

cores() { # Print how many cores this process may use; nproc would count each hardware thread of one.
  local ranges range cpu siblings=() count
  ranges=$(awk '/^Cpus_allowed_list:/ { gsub(",", " ", $2); print $2 }' /proc/self/status)
  for range in $ranges; do
    for ((cpu = ${range%-*}; cpu <= ${range#*-}; cpu++)); do
      siblings+=("/sys/devices/system/cpu/cpu$cpu/topology/thread_siblings_list")
    done
  done
  count=$(cat -- "${siblings[@]}" 2>/dev/null | sort -u | wc -l) || true
  if ((count > 0)); then echo "$count"; else nproc; fi
}

family() { # MPIRUN: print which library's launcher that is
  case $("$1" --version 2>&1 </dev/null) in
    *"Open MPI"* | *OpenRTE*) echo openmpi ;;
    *HYDRA* | *"Intel(R) MPI"*) echo mpich ;;
    *) echo unknown ;;
  esac
}

use_library() { # MPIRUN FAMILY: have mpi4py load the library that belongs to that launcher
  local prefix names name folder
  # mpi4py's wheel opens the first of libmpi.so, .so.12, .so.40 that the linker finds, whoever's mpirun it is.
  [[ -z ${MPI4PY_LIBMPI-}${MPI4PY_MPIABI-} ]] || return 0
  prefix=$(readlink -f "$1")
  prefix=${prefix%/bin/*}
  case $2 in
    openmpi) names=(libmpi.so.40) ;;
    mpich) names=(libmpi.so.12 libmpich.so.12) ;;
    *) return 0 ;;
  esac
  for name in "${names[@]}"; do
    for folder in "$prefix"/{lib,lib64,"lib/$(uname -m)-linux-gnu",lib/release}; do
      [[ -e $folder/$name ]] || continue
      [[ $name != libmpich.so.12 ]] || under_common_name "$folder/$name"
      export MPI4PY_LIBMPI=$folder/$name
      return
    done
  done
}

under_common_name() { # LIBRARY: Debian alone calls MPICH's library libmpich.so.12; mpi4py asks for libmpi.so.12
  ln -sfn "$1" "$root/.venv/system/lib/libmpi.so.12"
  export LD_LIBRARY_PATH=$root/.venv/system/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
}

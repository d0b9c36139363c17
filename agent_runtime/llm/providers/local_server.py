"""llama.cpp's own server, in a process of its own: `python -m agent_runtime.llm.providers.local_server`.

Not run by hand: whoever starts it (`LocalProvider`, benchmarks) writes the settings as one line of JSON to its standard
input, reads the address from its standard output, and ends it by closing the input, which the system
also does when the parent is killed. Of its own because loading holds the interpreter lock for a second,
because a server that is released while it answers waits for its last reader, and because one that is
left to the interpreter's exit crashes it (all seen with xllamacpp 2026.10).
"""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import asdict, dataclass

from agent_runtime.llm.errors import ModelSetupError
from agent_runtime.llm.providers.local_weights import find_weights


@dataclass(frozen=True, slots=True)
class LocalServerSettings:
    """What the server needs to know.

    `model_path` "" stands for the local model's weights. `context_tokens` is for each slot: prompt and answer together.
    """

    model_path: str
    model_name: str
    api_key: str
    slots: int
    context_tokens: int
    threads: int

    def to_line(self) -> bytes:
        return json.dumps(asdict(self)).encode() + b"\n"


def main() -> None:
    """Serves until standard input ends."""
    # Ctrl-C reaches the whole process group; whether to end is the parent's decision.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    settings = LocalServerSettings(**json.loads(sys.stdin.readline()))
    try:
        server = _start_server(settings)
    except ModelSetupError as error:
        _tell({"error": str(error)})
        return
    except (RuntimeError, ValueError, OSError) as error:
        _tell({"error": f"{type(error).__name__}: {error}"})
        return
    _tell({"address": server.listening_address})
    sys.stdin.read()
    # Without releasing the server: see above. It holds nothing that outlives the process.
    os._exit(0)


def _start_server(settings: LocalServerSettings):  # type: ignore[no-untyped-def]
    model_path = settings.model_path or str(find_weights())
    # Imported here, as the parent imports this module for the settings alone.
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = model_path
    params.model_alias = {settings.model_name}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [settings.api_key]
    params.n_parallel = settings.slots
    params.n_ctx = settings.slots * settings.context_tokens
    params.n_threads_http = settings.slots + 2
    params.cpuparams.n_threads = settings.threads
    params.cpuparams_batch.n_threads = settings.threads
    # Waiting threads sleep instead of spinning: the runtime needs the same cores.
    params.cpuparams.poll = 0
    params.cpuparams_batch.poll = 0
    params.n_gpu_layers = 0
    # Take the sizes as given instead of fitting them to the machine's free memory.
    params.fit_params = False
    params.cache_ram_mib = 0
    params.warmup = False
    params.ui = False
    params.endpoint_slots = False
    params.verbosity = 0
    return xllamacpp.Server(params)


def _tell(message: dict[str, str]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()

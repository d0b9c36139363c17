"""Agents that act by a model: farmers and bakers look at the book of a corn exchange and place orders, with its tools.

ecumene serve --data-dir /tmp/example &
python examples/haggling_agents.py                                            # a scripted model stands in
python examples/haggling_agents.py 127.0.0.1:7170 http://127.0.0.1:8000/v1 my-model    # an OpenAI-compatible one

No agent is programmed here: `prompted-agent` with a persona, something to observe and tools is all of it. A bell wakes
everybody; a round ends when all have had their turn.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ecumene
import pyarrow as pa
from ecumene import EventType, Gate

if TYPE_CHECKING:
    from agent_runtime.llm import ModelRequest
    from agent_runtime.model.draws import Draw

EXCHANGE, BELL, HEARD = "/haggling", "/haggling-bell", "/haggling-bell/heard"
PERSONAS = {
    "fay": "You are Fay, a farmer. You want to sell your corn, for 8 at the least.",
    "fred": "You are Fred, a farmer in a hurry. You sell corn for almost any price.",
    "bea": "You are Bea, a baker. You need corn, and pay up to 12 for one.",
    "ben": "You are Ben, a baker with a small purse. You buy corn when it is cheap.",
}
ROUNDS = 3
HERE = Path(__file__).resolve().parent


def haggle(request: ModelRequest, draw: Draw) -> Any:
    """Stands in for a model: looks at the book, then places one order, then says so."""
    from agent_runtime.llm import ToolCall

    if request.call == 0:
        return ToolCall("1", "book", json.dumps({"good": "corn"}))
    if request.call == 1:
        side = "sell" if "farmer" in request.messages[1].content else "buy"
        order = {"side": side, "good": "corn", "price": 8 + draw.randrange(5), "quantity": 1 + draw.randrange(5)}
        return ToolCall("2", "place", json.dumps(order))
    return "I placed an order that suits me."


def describe_launch(folder: Path, endpoint: str, model: str) -> Path:
    """Writes who the agents are and what they may do."""
    table = pa.table({"agent_id": list(PERSONAS), "persona": list(PERSONAS.values())})
    with pa.OSFile(str(folder / "agents.arrow"), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    asked = {"provider": "openai", "base_url": endpoint, "model": model} if endpoint else {"provider": "scripted"}
    group = {
        "name": "traders",
        "agent": "prompted-agent",
        "agents": "agents.arrow",
        "wake": [{"path": BELL, "key": "round", "types": ["entry_set"]}],
        "model": "trader",
        "parameters": {
            "observe": [{"path": EXCHANGE, "operation": "account", "arguments": {"trader": "{agent}"}}],
            # Who places an order is bound: no model trades in another's name.
            "tools": [{"path": EXCHANGE, "only": ["book", "place"], "bind": {"trader": "{agent}"}}],
            "fallback": {"nothing": True},
        },
    }
    models = {"trader": asked if endpoint else {**asked, "answers": "haggling_agents:haggle"}}
    launch = {"run": folder.name, "workers": 1, "groups": [group], "models": models}
    (folder / "launch.json").write_text(json.dumps(launch))
    return folder / "launch.json"


async def ring(world: ecumene.World, number: int) -> None:
    """One round: wakes everybody, and waits until all have had their turn."""
    heard = world.environment(HEARD)
    gate = await heard.begin_generation("round", count_target=len(PERSONAS))
    async with heard.watch(types=[EventType.GATE_OPENED]) as opened:
        ask = {"round": number, "reports": HEARD, "generation": gate.generation}
        await world.environment(BELL).set("round", ask)
        await asyncio.wait_for(anext(opened), 120)


async def main(address: str, endpoint: str, model: str) -> None:
    """Let the agents trade for some rounds, and tell what they have."""
    async with ecumene.connect(address) as world:
        exchange = world.environment(EXCHANGE)
        await exchange.register(kind="market", if_absent=True)
        await world.environment(BELL).register(if_absent=True)
        await world.environment(HEARD).register(gates=[Gate("round")], if_absent=True)
        for name, persona in PERSONAS.items():
            goods = {"goods": {"corn": 20}} if "farmer" in persona else {"cash": 200}
            await exchange.invoke("deposit", trader=name, **goods)
        folder = Path(tempfile.mkdtemp(prefix="haggling-"))
        command = [sys.executable, "-m", "ecumene.cli", "runtime", "--server", address]
        command += ["--spec", str(describe_launch(folder, endpoint, model))]
        # In this folder, so that the worker finds the scripted model by its name.
        runtime = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, cwd=HERE)
        assert runtime.stdout is not None
        try:
            print("runtime:", json.loads(await runtime.stdout.readline())["state"])
            for number in range(1, ROUNDS + 1):
                await ring(world, number)
                book: Any = await exchange.invoke("book", good="corn")
                print(f"round {number}: {len(book['bids'])} bids and {len(book['asks'])} asks rest in the book")
        finally:
            runtime.terminate()
        ended = json.loads((await runtime.communicate())[0].splitlines()[-1])
        for name in PERSONAS:
            account: Any = await exchange.invoke("account", trader=name)
            print(f"{name} may use {account['cash']} and {account['goods'].get('corn', 0)} corn")
        print("turns:", ended["turns"], "tokens:", ended["prompt_tokens"] + ended["completion_tokens"])


if __name__ == "__main__":
    given = sys.argv[1:]
    asyncio.run(main(*given, *("127.0.0.1:7170", "", "")[len(given) :]))

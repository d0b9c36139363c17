"""The call of a person in an agent's seat: turns go out, decisions come in, and its end gives the seat back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from agent_api.v1 import seats_pb2 as pb

from agent_runtime.model.errors import CommandError
from agent_runtime.model.owned_tasks import OwnedTasks
from agent_runtime.model.refusals import NodeError, Refusal, refuse_agent, refuse_field
from agent_runtime.node.hosting import HostedRun
from agent_runtime.node.interventions import note_seat
from agent_runtime.node.node import Node
from agent_runtime.node.seats import TakenSeat
from agent_runtime.rpc.asking_calls import sign
from agent_runtime.rpc.edge import Context, parse, parse_json
from agent_runtime.rpc.readings import read_choices, read_seat_timeout_s
from agent_runtime.worker.commands import Decide, Seat

COMMAND_TIMEOUT_S = 30.0


class SittingCall:
    """Handler of Sit."""

    def __init__(self, node: Node) -> None:
        self._node = node

    async def sit(self, requests: AsyncIterator[bytes], context: Context) -> None:
        """Seat a person until the stream ends."""
        first = await anext(aiter(requests), b"")
        message = parse(pb.SitRequest, first)
        if message.WhichOneof("request") != "take":
            raise refuse_field("request", "is take first")
        take = message.take
        hosting, timeout_s = self._node.find_run(take.run), read_seat_timeout_s(take.timeout_ms)
        signed = sign(self._node, take.run, take.actor, take.comment)
        hosting.find_one(take.agent)
        seat = self._node.seats.take(take.run, take.agent, timeout_s)
        try:
            await note_seat(self._node.world, signed, take.agent, timeout_s)
            seated = await self._command(
                hosting, take.agent, lambda number: Seat(id=number, agent=take.agent, timeout_s=timeout_s)
            )
            profile = json.dumps(seated.get("profile") or {}, ensure_ascii=False, default=str).encode()
            answer = pb.Seated(note=signed.note, group=str(seated.get("group") or ""), profile_json=profile)
            await context.write(pb.SitResponse(seated=answer).SerializeToString())
            await self._carry(hosting, take.agent, requests, seat, context)
        finally:
            self._node.seats.leave(take.run, take.agent)
            await self._give_back(hosting, take.agent)

    async def _carry(
        self,
        hosting: HostedRun,
        agent: str,
        requests: AsyncIterator[bytes],
        seat: TakenSeat,
        context: Context,
    ) -> None:
        """Both ways, until the person leaves. Raises NodeError: a decision is refused, or the agent lives elsewhere."""
        tasks = OwnedTasks()
        hearing = tasks.start(self._take_decisions(hosting, agent, requests), f"seat {agent} decisions")
        telling = tasks.start(self._tell_turns(seat.told, context), f"seat {agent} turns")
        losing = tasks.start(seat.wait_gone(), f"seat {agent} loss")
        try:
            await asyncio.wait({hearing, telling, losing}, return_when=asyncio.FIRST_COMPLETED)
            if tasks.failure.done():
                tasks.failure.result()
            if seat.gone.is_set():
                raise refuse_agent(hosting.run, agent)
        finally:
            await tasks.cancel_all()

    async def _take_decisions(self, hosting: HostedRun, agent: str, requests: AsyncIterator[bytes]) -> None:
        async for data in requests:
            message = parse(pb.SitRequest, data)
            if message.WhichOneof("request") != "decide":
                raise refuse_field("request", "is decide after take")
            decide = message.decide
            if not decide.turn:
                raise refuse_field("decide.turn", "must be set")
            report = (parse_json(decide.report_json, "decide.report_json"),) if decide.report_json else None
            actions = read_choices(decide.actions)
            turn = decide.turn

            def make(
                number: int, turn: int = turn, report: tuple[Any, ...] | None = report, actions: Any = actions
            ) -> Decide:
                return Decide(id=number, agent=agent, turn=turn, report=report, actions=actions)

            await self._command(hosting, agent, make)

    async def _tell_turns(self, told: asyncio.Queue[dict[str, Any]], context: Context) -> None:
        while True:
            line = await told.get()
            turn = int(line.get("turn") or 0)
            if (status := line.get("status")) is not None:
                outcome = pb.SeatOutcome(turn=turn, status=str(status), reason=str(line.get("reason") or ""))
                response = pb.SitResponse(outcome=outcome)
            else:
                events = json.dumps(line.get("events") or [], ensure_ascii=False).encode()
                begun = pb.SeatTurn(
                    turn=turn,
                    revision=int(line.get("revision") or 0),
                    events_json=events,
                    asks_report=bool(line.get("asks_report")),
                    timeout_ms=int(line.get("timeout_ms") or 0),
                )
                response = pb.SitResponse(turn=begun)
            await context.write(response.SerializeToString())

    async def _command(self, hosting: HostedRun, agent: str, make: Any) -> dict[str, Any]:
        try:
            return await hosting.ask(agent, make, COMMAND_TIMEOUT_S)
        except CommandError as error:
            raise NodeError(Refusal.TURN_OVER, str(error), run=hosting.run, agent=agent) from None

    async def _give_back(self, hosting: HostedRun, agent: str) -> None:
        try:
            await hosting.ask(agent, lambda number: Seat(id=number, agent=agent, seated=False), COMMAND_TIMEOUT_S)
        except (NodeError, CommandError):
            pass  # the worker is gone, and the seat with it

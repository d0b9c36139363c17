"""Quotas of the world, as gateways use them: see the kind `quota` of the server."""

from __future__ import annotations

from collections.abc import Awaitable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar, cast

from ecumene.client import EcumeneError, Environment, EnvironmentNotFoundError, Json, World

from agent_runtime.actions.settlement import is_answerable
from agent_runtime.llm.admission import Load, QuotaRefusedError, QuotaUnavailableError, Share, Want
from agent_runtime.llm.admission.quota_shares import Unused
from agent_runtime.model.errors import LaunchError

QUOTAS = "/runtime/quotas"
KIND = "quota"
CALL_TIMEOUT_S = 10.0
_UNUSED_MAX = 1_000
T = TypeVar("T")


class WorldQuota:
    """One quota of the world, for one worker. See QuotaShares."""

    def __init__(self, environment: Environment, member: str, limits: Mapping[str, int]) -> None:
        self._environment = environment
        self._member = member
        self.limits = limits
        """Those that hold, by name."""

    @classmethod
    async def open(cls, world: World, name: str, limits: dict[str, int], member: str) -> WorldQuota:
        """The quota of a name, registered with these limits if it is not there; `member` is who takes.

        Without limits the quota has to be there; its own hold then.

        Raises:
            LaunchError: it is there with other limits, or as something else; it is not there, and none are given.
            EcumeneError.
        """
        environment = world.environment(f"{QUOTAS}/{name}", timeout_s=CALL_TIMEOUT_S)
        if limits:
            await world.environment("/runtime").register(if_absent=True)
            await world.environment(QUOTAS).register(if_absent=True)
            await environment.register(kind=KIND, config=cast(dict[str, Json], limits), if_absent=True)
        try:
            known = await environment.describe()
        except EnvironmentNotFoundError as error:
            problem = "is not in the world, and the launch gives no limits to make it with"
            raise LaunchError(f"quota {name}", problem) from error
        if known.kind != KIND or limits not in ({}, known.config):
            raise LaunchError(f"quota {name}", f"is in the world with {known.config}, not with {limits}")
        return cls(environment, member, cast(dict[str, int], known.config))

    async def take(self, want: Want, unused: Unused) -> Share:
        """See QuotaShares."""
        told = await self._ask(
            self._environment.invoke(
                "take",
                member=self._member,
                requests=want.requests,
                tokens=want.tokens,
                least_tokens=want.least_tokens,
                unused=_list_unused(unused),
            )
        )
        with _reading():
            if not told["requests"]:
                return Share(0, 0, 0, 0.0, max(0.0, told["wait_ms"] / 1000))
            return Share(told["share"], told["requests"], told["tokens"], told["ttl_ms"] / 1000)

    async def draw(self, tokens: int, microdollars: int, least: Load) -> Load:
        """See QuotaShares."""
        told = await self._ask(
            self._environment.invoke(
                "draw",
                tokens=tokens,
                microdollars=microdollars,
                least_tokens=least.tokens,
                least_microdollars=least.microdollars,
            )
        )
        with _reading():
            return Load(int(told["tokens"]), int(told["microdollars"]))

    async def give_back(self, tokens: int, microdollars: int, unused: Unused) -> None:
        """See QuotaShares."""
        await self._ask(
            self._environment.invoke("give_back", tokens=tokens, microdollars=microdollars, unused=_list_unused(unused))
        )

    async def _ask(self, call: Awaitable[Json]) -> Any:
        try:
            return await call
        except EcumeneError as error:
            kind = QuotaRefusedError if is_answerable(error) else QuotaUnavailableError
            raise kind(" ".join(str(error).split())) from error


@contextmanager
def _reading() -> Iterator[None]:
    """What stands in a quota's place may be something else by now."""
    try:
        yield
    except (LookupError, TypeError, ValueError, OverflowError) as error:
        raise QuotaRefusedError(f"it answers what no quota does: {error!r}") from error


def _list_unused(unused: Unused) -> list[Json]:
    return [[share, *amounts] for share, amounts in list(unused.items())[:_UNUSED_MAX]]

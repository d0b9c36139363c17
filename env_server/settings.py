"""Settings of a server process: read once, from the command line and from ECUMENE_SERVER_* variables, then frozen."""

import ipaddress
from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict


class ServerSettings(BaseSettings):
    """Serves worlds of simulated environments over gRPC."""

    model_config = SettingsConfigDict(
        env_prefix="ECUMENE_SERVER_",
        frozen=True,
        cli_prog_name="ecumene serve",
        cli_kebab_case=True,
        cli_implicit_flags=True,
        cli_hide_none_type=True,
        cli_avoid_json=True,
    )

    data_dir: Path = Field(Path("ecumene-data"), description="Where the worlds are kept; made when missing.")
    host: str = Field("127.0.0.1", description="Address to listen on; other than loopback only with --insecure.")
    port: int = Field(7170, ge=0, le=65535, description="TCP port; 0 takes a free one, told in the readiness line.")
    insecure: bool = Field(False, description="Allow an address that other machines reach, without TLS.")
    behaviour: list[str] = Field([], description="Further behaviours, as module:Class; may be repeated.")
    loop: Literal["uvloop", "asyncio"] = Field("uvloop", description="Event loop.")
    concurrency_max: int = Field(1024, ge=1, description="Behaviour operations that may run at a time, in all worlds.")
    queue_ops_max: int = Field(10_000, ge=1, description="Ops of a world that may wait behind held keys.")
    map_mib: int = Field(32 * 1024, ge=16, description="Storage of a world at most, in MiB.")
    log_mib: int = Field(4096, ge=1, description="Events kept for replay, in MiB; at most half of --map-mib.")
    durability: Literal["fsync", "relaxed"] = Field(
        "fsync",
        description="fsync: what is answered is on the disk. relaxed: it is there 50 ms later; a crash may take it "
        "back, and the world then goes on as a new history. For runs that may be thrown away.",
    )

    log_age_s: float = Field(86_400, gt=0, description="Events kept for replay, in seconds; older ones are forgotten.")
    streams_max: int = Field(10_000, ge=1, description="Sessions, monitors and consumers of a world that may live.")
    heartbeat_ms: int = Field(
        5_000, ge=100, le=60_000, description="A stream that lives hears from the server at least this often."
    )
    drain_s: float = Field(5.0, ge=0, description="How long a stop waits for clients to finish.")
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="Of the log on stderr.")
    print_config: bool = Field(False, description="Print the settings as JSON and exit.")
    print_kinds: bool = Field(False, description="Print all kinds with their operations as JSON and exit.")

    @model_validator(mode="after")
    def _check_host(self) -> "ServerSettings":
        if not self.insecure and not _is_loopback(self.host):
            raise ValueError(f"{self.host} can be reached from other machines: give --insecure to allow that")
        return self


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False

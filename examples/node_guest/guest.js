// A guest in a guess game whose other players are agents: joins with a lease, hears of rounds, reports, leaves.
//
//   ecumene serve &
//   cd examples/node_guest && npm install
//   node guest.js --world party &
//   ecumene run ../guess_with_guest.yaml --server 127.0.0.1:7170        (its world is "party")
//
// Nothing but the contract in ../../protos: Register, Monitor, Update and Delete, and a lease that says "I am here". When
// this process dies its lease ends with it, and the round goes on without its number.
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import grpc from "@grpc/grpc-js";
import loader from "@grpc/proto-loader";

const { values: options } = parseArgs({
  options: {
    server: { type: "string", default: process.env.ECUMENE_SERVER ?? "127.0.0.1:7170" },
    world: { type: "string", default: "main" },
    name: { type: "string", default: "nora" },
    rounds: { type: "string", default: "0" }, // leave after so many; 0 = play until the game is gone
    think: { type: "string", default: "0" }, // seconds before each report
    lease: { type: "string", default: "5" }, // seconds after which a dead guest is missed
    protos: { type: "string", default: fileURLToPath(new URL("../../protos", import.meta.url)) },
  },
});
const { world, name } = options;
const GAME = "/game";
const PLAYERS = `${GAME}/players`;
const CALL_TIMEOUT_MS = 10_000;
const JOIN_RETRY_MS = 500;

const { env_api } = grpc.loadPackageDefinition(
  loader.loadSync(["env_api/v1/environment_service.proto", "env_api/v1/lease_service.proto"], {
    includeDirs: [options.protos],
    keepCase: true,
    longs: String, // revisions and lease ids have 64 bits
    enums: String,
    oneofs: true,
    defaults: true,
  }),
);
const environments = new env_api.v1.EnvironmentService(options.server, grpc.credentials.createInsecure());
const leases = new env_api.v1.LeaseService(options.server, grpc.credentials.createInsecure());

function call(service, method, request) {
  return new Promise((resolve, reject) => {
    const deadline = Date.now() + CALL_TIMEOUT_MS;
    service[method]({ world, ...request }, { deadline }, (error, answer) => (error ? reject(error) : resolve(answer)));
  });
}

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// ---- being there ----

// Joins as soon as there is a game that takes guests; returns the lease, and the revision from which on to listen.
async function join() {
  while (!(await isOpen())) await sleep(JOIN_RETRY_MS);
  const ttl_ms = String(Number(options.lease) * 1000);
  const { lease_id } = await call(leases, "GrantLease", { ttl_ms, holder: name });
  const member = { entry_kind: "ENTRY_KIND_MEMBER", value: { string_value: "a guest" }, lease_id };
  const joined = await call(environments, "Register", { path: PLAYERS, key: name, register: member });
  return { lease_id, from_revision: joined.header.revision };
}

async function isOpen() {
  try {
    return Boolean(await call(environments, "Query", { path: PLAYERS, query: { get: {} } }));
  } catch (error) {
    if (error.code === grpc.status.NOT_FOUND || error.code === grpc.status.UNAVAILABLE) return false;
    throw error;
  }
}

// A third of its time leaves two more tries before a lease ends.
function keepAlive(lease_id, lost) {
  setInterval(async () => {
    try {
      const kept = await call(leases, "KeepLeasesAlive", { lease_ids: [lease_id] });
      if (kept.ended.length) lost(new Error("the lease has ended: the others play without us"));
    } catch (error) {
      if (error.code !== grpc.status.UNAVAILABLE) lost(error);
    }
  }, (Number(options.lease) * 1000) / 3);
}

async function leave(lease_id) {
  await call(environments, "Delete", { path: PLAYERS, key: name, delete: { if_present: true } });
  await call(leases, "RevokeLease", { lease_id });
}

// ---- playing ----

// One step of thought: what wins if all others repeat themselves, or in the first round, if they name 50.
function choose({ ratio, offset, last_winner }) {
  const others = last_winner === null ? 50 : (last_winner - offset) / ratio;
  return ratio * others + offset;
}

// Reports to the gate of this round. The event's revision numbers the report: sent again, it would count once.
async function report(event, round) {
  await sleep(Number(options.think) * 1000);
  const number = choose(round);
  try {
    await call(environments, "Update", {
      path: round.reports,
      key: name,
      update: { set: { double_value: number } },
      preconditions: [{ gate_generation: String(round.generation) }],
      caller: { producer: name, producer_seq: event.revision, actor: name, cause: event.id },
    });
    console.log(`round ${round.round}: ${name} says ${number.toFixed(2)}`);
  } catch (error) {
    if (error.code !== grpc.status.FAILED_PRECONDITION) throw error;
    console.log(`round ${round.round}: too late`); // the gate has opened
  }
}

// Hears of rounds until the game is gone, or so many are over.
async function play(from_revision) {
  const filter = { path_prefix: GAME, types: ["EVENT_TYPE_BEHAVIOUR"], key_glob: "round.*" };
  let played = 0;
  try {
    for await (const message of environments.Monitor({ world, filter, from_revision })) {
      for (const event of message.events) {
        const round = JSON.parse(event.value.json_value);
        if (event.key === "round.opened") {
          await report(event, round);
        } else {
          const mean = round.mean === null ? "nobody reported" : `mean ${round.mean.toFixed(2)}`;
          console.log(`round ${round.round}: ${mean}, ${round.winner ?? "nobody"} wins`);
          played += 1;
          if (played === Number(options.rounds)) return;
        }
      }
    }
  } catch (error) {
    if (error.code !== grpc.status.UNAVAILABLE) throw error;
  }
}

const stop = new Promise((resolve) => ["SIGINT", "SIGTERM"].forEach((signal) => process.once(signal, resolve)));
try {
  const { lease_id, from_revision } = await join();
  console.log(`${name} has joined ${GAME} of world ${world}`);
  const lost = new Promise((_, reject) => keepAlive(lease_id, reject));
  await Promise.race([play(from_revision), stop, lost]);
  await leave(lease_id).catch(() => {}); // the server may be gone, and the game with it
  console.log(`${name} has left`);
  process.exit(0);
} catch (error) {
  console.error(`guest.js: ${error.details || error.message}`);
  process.exit(1);
}

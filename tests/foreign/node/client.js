// All five verbs, error details, a watch and a session frame, with nothing but the contract.
// Usage: node client.js ADDRESS PROTOS_DIRECTORY. Prints one JSON object; exits 1 when anything is not as it must be.
import assert from "node:assert/strict";
import grpc from "@grpc/grpc-js";
import loader from "@grpc/proto-loader";

const [address, protos] = process.argv.slice(2);
const TIMEOUT_MS = 20000;

const definition = loader.loadSync("env_api/v1/environment_service.proto", {
  includeDirs: [protos],
  keepCase: true,
  longs: String,
  enums: String,
  oneofs: true,
  defaults: true,
});
const { env_api } = grpc.loadPackageDefinition(definition);
const client = new env_api.v1.EnvironmentService(address, grpc.credentials.createInsecure());

// google.rpc.Status is not part of the contract's files: foreign clients have it from anywhere; here it is said inline.
const STATUS = loader.fromJSON({
  nested: {
    Any: { fields: { type_url: { type: "string", id: 1 }, value: { type: "bytes", id: 2 } } },
    Status: {
      fields: {
        code: { type: "int32", id: 1 },
        message: { type: "string", id: 2 },
        details: { rule: "repeated", type: "Any", id: 3 },
      },
    },
    ErrorInfo: {
      fields: {
        reason: { type: "string", id: 1 },
        domain: { type: "string", id: 2 },
        metadata: { keyType: "string", type: "string", id: 3 },
      },
    },
    Decoder: {
      methods: {
        Status: { requestType: "Status", responseType: "Status" },
        ErrorInfo: { requestType: "ErrorInfo", responseType: "ErrorInfo" },
      },
    },
  },
}).Decoder;

function call(verb, request) {
  return new Promise((resolve, reject) => {
    const deadline = Date.now() + TIMEOUT_MS;
    client[verb](request, { deadline }, (error, response) => (error ? reject(error) : resolve(response)));
  });
}

function decodeDetails(error) {
  const [bytes] = error.metadata.get("grpc-status-details-bin");
  const status = STATUS.Status.responseDeserialize(bytes);
  assert.equal(status.code, error.code);
  const info = status.details.find((detail) => detail.type_url.endsWith("google.rpc.ErrorInfo"));
  return STATUS.ErrorInfo.responseDeserialize(info.value);
}

async function callAndFail(verb, request, code, reason) {
  const error = await call(verb, request).then(
    () => assert.fail(`${verb} must fail`),
    (failed) => failed,
  );
  assert.equal(error.code, code, error.message);
  const info = decodeDetails(error);
  assert.equal(info.domain, "ecumene");
  assert.equal(info.reason, reason);
  return info;
}

// ---- the five verbs ----

async function registerAndUpdate() {
  const registered = await call("Register", { path: "/node", register: { labels: { from: "node" } } });
  assert.equal(registered.written.changed, true);
  const set = await call("Update", { path: "/node", key: "größe", update: { set: { double_value: 1.5 } } });
  assert.equal(set.written.version, "1");
  assert.ok(BigInt(set.header.revision) > BigInt(registered.header.revision));
  const added = await call("Update", { path: "/node", key: "count", update: { add_int: "9007199254740993" } });
  assert.equal(added.written.value.int_value, "9007199254740993");
  const json = Buffer.from('{"a":[1,2]}');
  await call("Update", { path: "/node", key: "doc", update: { set: { json_value: json } } });
  await call("Update", { path: "/node", key: "doc", update: { merge_json: Buffer.from('{"b":true}') } });
  const appended = await call("Update", { path: "/node", key: "log", update: { append: { string_value: "first" } } });
  assert.equal(appended.written.sequence, "1");
}

async function query() {
  const entry = await call("Query", { path: "/node", key: "größe", query: { get: {} } });
  assert.equal(entry.result.entry.value.double_value, 1.5);
  const doc = await call("Query", { path: "/node", key: "doc", query: { get: {} } });
  assert.deepEqual(JSON.parse(doc.result.entry.value.json_value), { a: [1, 2], b: true });
  const page = await call("Query", { path: "/node", query: { list_entries: { page_size: 3 } } });
  assert.deepEqual(page.result.entries.entries.map((one) => one.key), ["count", "doc", "größe"]);
  const next = { list_entries: { page_size: 3, page_token: page.result.entries.next_page_token } };
  const rest = await call("Query", { path: "/node", query: next });
  assert.deepEqual(rest.result.entries.entries.map((one) => one.key), ["log"]);
  const children = await call("Query", { path: "/", query: { list_children: { labels: { from: "node" } } } });
  assert.deepEqual(children.result.environments.environments.map((one) => one.path), ["/node"]);
}

async function failures() {
  const get = { get: {} };
  const absent = await callAndFail("Query", { path: "/node", key: "none", query: get }, grpc.status.NOT_FOUND, "ENTRY_NOT_FOUND");
  assert.deepEqual(absent.metadata, { path: "/node", key: "none", executed: "no" });
  const precondition = { path: "/node", key: "größe", update: { set: { int_value: 1 } }, preconditions: [{ version: 9 }] };
  const met = await callAndFail("Update", precondition, grpc.status.ABORTED, "PRECONDITION_FAILED");
  assert.equal(met.metadata.version, "1");
  const bad = { path: "node", key: "x", query: get };
  await callAndFail("Query", bad, grpc.status.INVALID_ARGUMENT, "INVALID_PATH");
  const nan = { path: "/node", key: "x", update: { set: { double_value: NaN } } };
  await callAndFail("Update", nan, grpc.status.INVALID_ARGUMENT, "INVALID_VALUE");
}

async function repetition() {
  const request = { path: "/node", key: "once", update: { add_int: "1" }, caller: { producer: "node", producer_seq: "7" } };
  const first = await call("Update", request);
  const again = await call("Update", request);
  assert.equal(first.duplicate, false);
  assert.equal(again.duplicate, true);
  assert.deepEqual(again.written, first.written);
}

// ---- streams ----

function watch(request, enough) {
  return new Promise((resolve, reject) => {
    const stream = client.Monitor(request, { deadline: Date.now() + TIMEOUT_MS });
    const messages = [];
    stream.on("data", (message) => {
      messages.push(message);
      if (enough(messages)) {
        stream.cancel();
        resolve(messages);
      }
    });
    stream.on("error", (error) => (error.code === grpc.status.CANCELLED ? null : reject(error)));
  });
}

async function monitor() {
  const replay = await watch({ filter: { path_prefix: "/node" }, from_revision: "1" }, (seen) =>
    seen.flatMap((one) => one.events).some((event) => event.key === "once"),
  );
  const events = replay.flatMap((one) => one.events).filter((event) => event.key !== "");
  assert.deepEqual(events.map((event) => event.key), ["größe", "count", "doc", "doc", "log", "once"]);
  const initial = await watch({ filter: { path_prefix: "/node" }, initial_state: true }, (seen) =>
    seen.some((one) => one.synced_revision !== "0"),
  );
  const keys = initial.flatMap((one) => one.events).map((event) => event.key);
  assert.deepEqual(keys.sort(), ["count", "doc", "größe", "log", "once"].sort());
  return events.length;
}

function session() {
  return new Promise((resolve, reject) => {
    const stream = client.Session({ deadline: Date.now() + TIMEOUT_MS });
    stream.on("error", reject);
    stream.on("data", (message) => {
      if (message.response === "welcome") {
        const ops = [
          { key: "a", set_int: "1" },
          { key: "a", query: { get: {} } },
          { key: "none", delete: {} },
          { key: "b", add_double: 0.5 },
        ];
        const block = { keys: ["c", "d"], doubles: [1.5, 2.5] };
        stream.write({ frame: { seq: "1", paths: ["/node"], ops, block, return_versions: true } });
      } else if (message.response === "answer") {
        stream.write({ acknowledge: { seq: "1" } });
        stream.end();
        resolve(message.answer);
      }
    });
    stream.write({ hello: { client_id: "node-client", user_agent: "grpc-js" } });
  });
}

function checkAnswer(answer) {
  assert.equal(answer.count, 6);
  assert.deepEqual(answer.pending, []);
  const outcomes = new Map(answer.outcomes.map((outcome) => [outcome.index, outcome]));
  assert.equal(outcomes.get(1).query.entry.value.int_value, "1");
  assert.equal(outcomes.get(2).error.reason, "ERROR_REASON_ENTRY_NOT_FOUND");
  assert.equal(outcomes.get(3).written.value.double_value, 0.5);
  assert.deepEqual(answer.versions, ["1", "0", "0", "1", "1", "1"]);
}

async function remove() {
  await callAndFail("Delete", { path: "/", delete: {} }, grpc.status.FAILED_PRECONDITION, "PROTECTED");
  const transact = { writes: [{ path: "/node", key: "a", delete: {} }, { path: "/node", key: "t", update: { add_int: "2" } }] };
  const both = await call("Transact", { transact });
  assert.equal(both.result.written.length, 2);
  await callAndFail("Invoke", { path: "/node", invoke: { operation: "x" } }, grpc.status.NOT_FOUND, "OPERATION_NOT_FOUND");
  await call("Delete", { path: "/node", delete: { recursive: true } });
  await callAndFail("Query", { path: "/node", query: { get: {} } }, grpc.status.NOT_FOUND, "ENVIRONMENT_NOT_FOUND");
}

try {
  await registerAndUpdate();
  await query();
  await failures();
  await repetition();
  const events = await monitor();
  checkAnswer(await session());
  await remove();
  console.log(JSON.stringify({ ok: true, events }));
} catch (error) {
  console.error(error);
  process.exitCode = 1;
} finally {
  client.close();
}

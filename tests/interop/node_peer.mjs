// SPDX-License-Identifier: Apache-2.0
//
// Node's implementations of gRPC and Connect, as children of a Python test: one line of JSON in, one
// out. Roles:
//
//   node node_peer.mjs client grpc-js ADDRESS PROTO-FOLDER      messages as proto-loader has them
//   node node_peer.mjs client connect ADDRESS DESCRIPTOR-SET    Connect in JSON, messages as JSON
//   node node_peer.mjs client connect-binary, connect-grpc …    the same client, other protocols
//   node node_peer.mjs server PROTO-FOLDER                      a target of both kinds
import {readFileSync, readdirSync} from 'node:fs';
import {createInterface} from 'node:readline';

import {createFileRegistry, fromBinary, fromJson, toJson} from '@bufbuild/protobuf';
import {FileDescriptorSetSchema} from '@bufbuild/protobuf/wkt';
import {ConnectError, createClient} from '@connectrpc/connect';
import {createConnectTransport, createGrpcTransport} from '@connectrpc/connect-node';
import grpc from '@grpc/grpc-js';
import loader from '@grpc/proto-loader';

const say = (value) => process.stdout.write(JSON.stringify(value) + '\n');
const parts = (path) => path.slice(1).split('/');

function load(folder) {
  const files = readdirSync(`${folder}/foliot/v1`).map((name) => `foliot/v1/${name}`);
  const definition = loader.loadSync(files, {
    includeDirs: [folder], keepCase: true, longs: String, enums: String, bytes: String,
  });
  return grpc.loadPackageDefinition(definition);
}

// ---- clients: each gives call(path, request, timeoutMs) ----

function grpcJs(address, folder) {
  const root = load(folder);
  const stubs = new Map();
  return (path, request, timeoutMs) => new Promise((resolve) => {
    const [service, method] = parts(path);
    if (!stubs.has(service)) {
      const Stub = service.split('.').reduce((at, name) => at[name], root);
      stubs.set(service, new Stub(address, grpc.credentials.createInsecure()));
    }
    const deadline = new Date(Date.now() + timeoutMs);
    stubs.get(service)[method](request, new grpc.Metadata(), {deadline}, (error, response) => {
      if (error === null) {
        resolve({code: 0, response});
        return;
      }
      const details = error.metadata.get('grpc-status-details-bin');
      resolve({
        code: error.code, message: error.details,
        status: details.length > 0 ? details[0].toString('base64') : '',
      });
    });
  });
}

function connect(transport, set) {
  const registry = createFileRegistry(fromBinary(FileDescriptorSetSchema, readFileSync(set)));
  return async (path, request, timeoutMs) => {
    const [name, methodName] = parts(path);
    const service = registry.getService(name);
    const method = service.methods.find((one) => one.name === methodName);
    try {
      const client = createClient(service, transport);
      const response = await client[method.localName](fromJson(method.input, request), {timeoutMs});
      return {code: 0, response: toJson(method.output, response)};
    } catch (thrown) {
      const error = ConnectError.from(thrown);
      return {
        code: error.code, message: error.rawMessage,
        details: error.details.map((one) => (
          {type: one.type, value: Buffer.from(one.value).toString('base64')})),
      };
    }
  };
}

const clients = {
  'grpc-js': grpcJs,
  'connect': (address, set) => connect(createConnectTransport({
    baseUrl: `http://${address}`, httpVersion: '1.1', useBinaryFormat: false}), set),
  'connect-binary': (address, set) => connect(createConnectTransport({
    baseUrl: `http://${address}`, httpVersion: '1.1', useBinaryFormat: true}), set),
  'connect-grpc': (address, set) => connect(createGrpcTransport({baseUrl: `http://${address}`}), set),
};

async function runClient(kind, address, source) {
  const call = clients[kind](address, source);
  say({ready: true});
  for await (const line of createInterface({input: process.stdin})) {
    const {number, path, request, timeoutMs} = JSON.parse(line);
    call(path, request, timeoutMs).then((answer) => say({number, ...answer}));
  }
  process.exit(0);
}

// ---- server ----

// What an attempt is answered, by the first letters of its key.
function resultOf(attempt) {
  const key = attempt.key ?? '';
  if (key.startsWith('dead')) {
    return {outcome: 'OUTCOME_DEAD', error: 'never'};
  }
  if (key.startsWith('retry') && attempt.attempt === 1) {
    return {outcome: 'OUTCOME_RETRY', error: 'not yet', retry_after: {seconds: 0, nanos: 50000000}};
  }
  return {outcome: 'OUTCOME_DONE'};
}

function anyMethod(path, handler) {
  const bytes = (value) => value;
  return {
    [parts(path)[1]]: {
      path, requestStream: false, responseStream: false, requestSerialize: bytes,
      requestDeserialize: bytes, responseSerialize: bytes, responseDeserialize: bytes,
    },
    handler,
  };
}

function runServer(folder) {
  const server = new grpc.Server();
  const take = (call) => say({
    kind: parts(call.getPath())[1], payload: call.request.toString('base64'),
    metadata: Object.fromEntries(Object.entries(call.metadata.getMap()).map(
      ([name, value]) => [name, Buffer.isBuffer(value) ? value.toString('base64') : value])),
  });
  server.addService(load(folder).foliot.v1.Receiver.service, {
    Deliver: (call, reply) => {
      say({kind: 'Deliver', attempts: call.request.attempts});
      reply(null, {results: call.request.attempts.map(resultOf)});
    },
  });
  const {handler: send, ...sendMethod} = anyMethod('/shop.Mail/Send', (call, reply) => {
    take(call);
    reply(null, Buffer.from('sent'));
  });
  const {handler: fail, ...failMethod} = anyMethod('/shop.Mail/Fail', (call, reply) => {
    take(call);
    reply({code: grpc.status.INTERNAL, details: 'the mail server is down \u00e4'});
  });
  server.addService({...sendMethod, ...failMethod}, {Send: send, Fail: fail});
  server.bindAsync('127.0.0.1:0', grpc.ServerCredentials.createInsecure(), (error, port) => {
    if (error !== null) {
      throw error;
    }
    say({address: `127.0.0.1:${port}`});
  });
  process.stdin.resume();
  process.stdin.on('end', () => process.exit(0));
}

const [role, ...rest] = process.argv.slice(2);
if (role === 'client') {
  await runClient(...rest);
} else {
  runServer(...rest);
}

// SPDX-License-Identifier: Apache-2.0
//
// The cases of gRPC's interoperability list, by @grpc/grpc-js: as a client against rpc_peer, and as a
// server for rpc_ask.
//
//   node node_cases.mjs client ADDRESS [CA CERT KEY]    ends with "N passed, N failed"
//   node node_cases.mjs server    prints its port; Echo, Fail, Late, Describe, as others have them
import assert from 'node:assert/strict';
import {readFileSync} from 'node:fs';
import {setTimeout as pause} from 'node:timers/promises';

import grpc from '@grpc/grpc-js';

const SERVICE = '/foliot.test.Peer/';
const bytes = (value) => value;

const [role, address, ca, cert, key] = process.argv.slice(2);
const credentials = ca === undefined ? grpc.credentials.createInsecure()
  : grpc.credentials.createSsl(readFileSync(ca), readFileSync(key), readFileSync(cert));

// ---- client ----

function connect(options = {}) {
  const client = new grpc.Client(address, credentials, {'grpc.use_local_subchannel_pool': 1, ...options});
  const unary = (method, request, {metadata = new grpc.Metadata(), ms = 10000} = {}) => {
    const path = method.startsWith('/') ? method : SERVICE + method;
    let call;
    const answer = new Promise((resolve, reject) => {
      call = client.makeUnaryRequest(path, bytes, bytes, Buffer.from(request), metadata,
        {deadline: Date.now() + ms}, (error, reply) => (error ? reject(error) : resolve(reply)));
    });
    answer.cancel = () => call.cancel();
    return answer;
  };
  return {client, unary, close: () => client.close()};
}

async function failure(answer) {
  try {
    await answer;
  } catch (error) {
    return error;
  }
  throw new Error('the call succeeded');
}

const cases = {
  async empty_and_large_messages_come_back_unchanged({unary}) {
    for (const body of [Buffer.alloc(0), Buffer.from('x'), Buffer.alloc(4000000, 'L')]) {
      assert.ok(body.equals(await unary('Echo', body)));
    }
  },

  async many_calls_at_once_are_all_answered({unary}) {
    const calls = Array.from({length: 2000}, (_, i) => unary('Echo', String(i), {ms: 30000}));
    const answers = await Promise.all(calls);
    assert.deepEqual(answers.map(String), Array.from({length: 2000}, (_, i) => String(i)));
  },

  async status_unicode_message_and_details_arrive({unary}) {
    const text = 'nein: 100 % \u00e4\u4e2d\u{1F600}\n\t end';
    for (let code = 1; code <= 16; code++) {
      const error = await failure(unary('Fail', Buffer.concat([Buffer.from([code]), Buffer.from(text)])));
      assert.equal(error.code, code);
      assert.equal(error.details, text);
      assert.deepEqual(error.metadata.get('grpc-status-details-bin')[0],
        Buffer.from('\x08\x05\x12\x02hi', 'latin1'));
    }
  },

  async custom_and_binary_metadata_and_deadline_arrive({unary}) {
    const metadata = new grpc.Metadata();
    metadata.add('x-text', 'some text');
    metadata.add('x-raw-bin', Buffer.from([0, 1, 255]));
    const answer = String(await unary('Describe', '', {metadata}));
    assert.match(answer, /deadline=future x-text=some text x-raw-bin=0001ff/);
  },

  async unknown_methods_and_services_are_unimplemented({unary}) {
    for (const path of [`${SERVICE}Nope`, '/no.such.Service/Echo', `${SERVICE}echo`]) {
      assert.equal((await failure(unary(path, ''))).code, grpc.status.UNIMPLEMENTED, path);
    }
  },

  async a_deadline_and_a_cancel_end_the_call_and_no_other({unary}) {
    assert.equal((await failure(unary('Wait', '60000', {ms: 200}))).code,
      grpc.status.DEADLINE_EXCEEDED);
    const waiting = unary('Wait', '60000');
    await pause(50);
    waiting.cancel();
    assert.equal((await failure(waiting)).code, grpc.status.CANCELLED);
    assert.equal(String(await unary('Echo', 'on')), 'on');
  },

  async a_message_above_the_limit_is_resource_exhausted({unary}) {
    const error = await failure(unary('Echo', Buffer.alloc((4 << 20) + 1)));
    assert.equal(error.code, grpc.status.RESOURCE_EXHAUSTED);
    assert.equal(String(await unary('Echo', 'on')), 'on');
  },

  async gzip_is_understood_and_deflate_refused() {
    const zipped = connect({'grpc.default_compression_algorithm': 2});
    for (const body of ['', 'x', 'x'.repeat(100000)]) {
      assert.equal(String(await zipped.unary('Echo', body)), body);
    }
    zipped.close();
    const deflated = connect({'grpc.default_compression_algorithm': 1});
    assert.equal((await failure(deflated.unary('Echo', 'x'.repeat(1000)))).code,
      grpc.status.UNIMPLEMENTED);
    deflated.close();
  },

  async health_is_told_and_watched({client, unary}) {
    assert.deepEqual(await unary('/grpc.health.v1.Health/Check', ''), Buffer.from([8, 1]));
    const watch = client.makeServerStreamRequest('/grpc.health.v1.Health/Watch', bytes, bytes,
      Buffer.alloc(0), new grpc.Metadata(), {});
    const ended = new Promise((resolve) => { watch.on('error', resolve); });
    const first = await new Promise((resolve) => { watch.once('data', resolve); });
    assert.deepEqual(first, Buffer.from([8, 1]));
    watch.cancel();
    assert.equal((await ended).code, grpc.status.CANCELLED);
  },

  async a_stream_in_both_directions_is_answered_message_by_message({client}) {
    const stream = client.makeBidiStreamRequest(
      '/grpc.reflection.v1.ServerReflection/ServerReflectionInfo', bytes, bytes, new grpc.Metadata(), {});
    const list = Buffer.from([0x3a, 1, 0x2a]); // list_services: "*"
    for (let i = 0; i < 3; i++) {
      stream.write(list);
      const answer = await new Promise((resolve) => { stream.once('data', resolve); });
      assert.ok(answer.includes('grpc.health.v1.Health'));
    }
    stream.on('data', () => {});
    const status = new Promise((resolve) => { stream.on('status', resolve); });
    stream.end();
    assert.equal((await status).code, grpc.status.OK);
  },

  async a_second_connection_is_served_beside_the_first(first) {
    const second = connect();
    const answers = await Promise.all([first.unary('Wait', '100'), second.unary('Echo', '2')]);
    assert.deepEqual(answers.map(String), ['100', '2']);
    second.close();
  },
};

async function runClient() {
  let failed = 0;
  for (const [name, run] of Object.entries(cases)) {
    const connection = connect();
    try {
      await run(connection);
    } catch (error) {
      failed++;
      console.log(`FAILED ${name}: ${error.stack}`);
    }
    connection.close();
  }
  console.log(`${Object.keys(cases).length - failed} passed, ${failed} failed`);
  process.exit(failed > 0 ? 1 : 0);
}

// ---- server ----

const handlers = {
  Echo: (call, reply) => reply(null, call.request),
  Fail: (call, reply) => {
    const metadata = new grpc.Metadata();
    metadata.set('grpc-status-details-bin', Buffer.from([8, 9]));
    metadata.set('grpc-retry-pushback-ms', '120');
    reply({code: grpc.status.FAILED_PRECONDITION, details: 'nein \u00e4 %\n', metadata});
  },
  Late: (call, reply) => { setTimeout(() => reply(null, call.request), 2000); },
  Describe: (call, reply) => {
    const [text] = call.metadata.get('x-text');
    const [raw] = call.metadata.get('x-raw-bin');
    const left = call.getDeadline() - Date.now();
    reply(null, Buffer.from(`${text}/${raw.toString('hex')}/${call.metadata.get('user-agent')[0]}/` +
      `${left > 0 && left <= 5000}`));
  },
};

function runServer() {
  const server = new grpc.Server({'grpc.max_concurrent_streams': 100});
  const service = Object.fromEntries(Object.keys(handlers).map((name) => [name, {
    path: SERVICE + name, requestStream: false, responseStream: false, requestSerialize: bytes,
    requestDeserialize: bytes, responseSerialize: bytes, responseDeserialize: bytes,
  }]));
  server.addService(service, handlers);
  server.bindAsync('127.0.0.1:0', grpc.ServerCredentials.createInsecure(), (error, port) => {
    if (error !== null) {
      throw error;
    }
    console.log(port);
  });
  process.stdin.resume();
  process.stdin.on('end', () => process.exit(0));
}

if (role === 'client') {
  await runClient();
} else {
  runServer();
}

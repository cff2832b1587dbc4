// SPDX-License-Identifier: Apache-2.0
//
// A task, end to end, in Node: make a queue, create a task that is due in two seconds, and be the
// service that it is fired at. Needs our .proto files, and no code made of them:
//
//     npm install
//     node client.js 127.0.0.1:7400 ../../../proto
import {randomUUID} from 'node:crypto';
import {promisify} from 'node:util';

import grpc from '@grpc/grpc-js';
import loader from '@grpc/proto-loader';

const [address = '127.0.0.1:7400', protos = '../../../proto'] = process.argv.slice(2);
const definition = loader.loadSync(
  ['foliot/v1/queue.proto', 'foliot/v1/receiver.proto', 'foliot/v1/task.proto'],
  {includeDirs: [protos], longs: Number, enums: String});
const {foliot: {v1}} = grpc.loadPackageDefinition(definition);

// Each call as a promise, with a deadline: a call without one waits for ever.
function stub(Service) {
  const client = new Service(address, grpc.credentials.createInsecure());
  return new Proxy(client, {
    get: (target, name) => (request) => promisify(target[name].bind(target))(
      request, new grpc.Metadata(), {deadline: Date.now() + 10000}),
  });
}

// Where tasks arrive, in batches; each attempt has its own result.
const seen = new Map(); // highest attempt of each task: drop what is older
let arrived;
const arrival = new Promise((resolve) => { arrived = resolve; });

function deliver(call, reply) {
  const results = call.request.attempts.map((attempt) => {
    const dueMs = attempt.dueTime.seconds * 1000 + attempt.dueTime.nanos / 1e6;
    if (attempt.attempt > (seen.get(attempt.taskId) ?? 0)) {
      seen.set(attempt.taskId, attempt.attempt);
      console.log(`fired   ${attempt.taskId} attempt ${attempt.attempt}, ${Date.now() - dueMs} ms ` +
        `after it was due: ${attempt.payload}`);
    }
    return {outcome: 'OUTCOME_DONE'};
  });
  reply(null, {results});
  arrived();
}

const server = new grpc.Server();
server.addService(v1.Receiver.service, {Deliver: deliver});
const port = await promisify(server.bindAsync.bind(server))(
  '127.0.0.1:0', grpc.ServerCredentials.createInsecure());

const queues = stub(v1.QueueService);
const tasks = stub(v1.TaskService);
const queue = `example-${randomUUID().slice(0, 8)}`;
await queues.Create({queue: {name: queue, target: `receiver://127.0.0.1:${port}`}});

// With a key the call may be repeated after any error: there is still one task.
const created = await tasks.Create({
  queue, key: 'order-17', delay: {seconds: 2}, payload: Buffer.from('hello from the past'),
});
console.log(`created ${created.id}, due ${new Date(created.dueTime.seconds * 1000).toISOString()}`);

// Another one, which is not going to happen.
const other = await tasks.Create({queue, delay: {seconds: 3600}, payload: Buffer.from('never')});
const answer = await tasks.Cancel({id: other.id});
console.log(`${answer.outcome} ${answer.id}`);

try {
  await tasks.Create({queue: 'no-such-queue'});
} catch (error) {
  console.log(`refused ${grpc.status[error.code]}: ${error.details}`);
}

const timer = setTimeout(() => process.exit(1), 30000);
await arrival;
clearTimeout(timer);
server.forceShutdown();
process.exit(0);

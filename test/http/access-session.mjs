/**
 * Uses a gateway over HTTPS as a producer, a worker and an operator, each with its own key, and prints what
 * they see as one JSON object. A process of its own: Node.js reads `NODE_EXTRA_CA_CERTS` only at its start.
 */
import { env, stdout } from 'node:process'
import { OJSClient, OJSWorker } from '../../dist/sdk/index.js'

const { OJS_URL: url, PRODUCER, WORKER, OPERATOR } = env
const client = (auth) => new OJSClient({ url, ...(auth && { auth }), retry: false })
const refusal = (call) =>
  call.then(
    () => 'allowed',
    ({ name, code, status }) => `${status} ${code} ${name}`,
  )

const producer = client(PRODUCER)
const worker = new OJSWorker({ url, auth: WORKER, queues: ['keys'], pollInterval: 10_000 })
const handled = new Promise((resolve) => {
  worker.register('greet', ({ args: [name] }) => {
    resolve(name)
    return { greeted: name }
  })
})
await worker.start()
const job = await producer.enqueue('greet', ['ada'], { queue: 'keys' })
const name = await handled
await worker.stop()
const waiting = await producer.enqueue('greet', ['bob'], { queue: 'keys' })

const seen = {
  name,
  state: (await producer.getJob(job.id)).state,
  nobody: await refusal(client().enqueue('greet', [], { queue: 'keys' })),
  stranger: await refusal(client('ojs_stranger').getJob(job.id)),
  workerPushes: await refusal(client(WORKER).enqueue('greet', [], { queue: 'keys' })),
  producerCancels: await refusal(producer.cancelJob(waiting.id)),
  operatorCancels: await refusal(client(OPERATOR).cancelJob(waiting.id)),
  health: (await client().health()).status,
  extensions: (await client().manifest()).extensions,
}
stdout.write(JSON.stringify(seen))

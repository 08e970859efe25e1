import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import { expect, it } from 'vitest'

const MIB = 1024 * 1024
/** In the build, because a worker thread cannot read TypeScript. */
const MEMORY = new URL('../dist/memory.js', import.meta.url).href

it('the heap of a worker thread that runs a gateway is counted without its nursery', async () => {
  const source = `
    const { parentPort } = require('node:worker_threads')
    import(${JSON.stringify(MEMORY)}).then(({ MAX_ALONE }) => parentPort.postMessage(MAX_ALONE))`
  const resourceLimits = { maxOldGenerationSizeMb: 128 }
  // The size that execArgv or NODE_OPTIONS give to Node would also apply to the thread.
  const thread = new Worker(source, { eval: true, resourceLimits, env: {}, execArgv: [] })
  const ended = once(thread, 'exit')
  expect(await once(thread, 'message')).toEqual([64 * MIB])
  await ended
})

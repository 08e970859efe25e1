import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import { expect, it } from 'vitest'

const MIB = 1024 * 1024
/** Of the build: a worker thread reads no TypeScript. */
const MEMORY = new URL('../dist/memory.js', import.meta.url).href

it('counts no nursery to the heap of a worker thread in which a program runs its gateway', async () => {
  const source = `
    const { parentPort } = require('node:worker_threads')
    import(${JSON.stringify(MEMORY)}).then(({ MAX_ALONE }) => parentPort.postMessage(MAX_ALONE))`
  const resourceLimits = { maxOldGenerationSizeMb: 128 }
  // Where Node itself was told a size, that is the thread's too.
  const thread = new Worker(source, { eval: true, resourceLimits, env: {}, execArgv: [] })
  const ended = once(thread, 'exit')
  expect(await once(thread, 'message')).toEqual([64 * MIB])
  await ended
})

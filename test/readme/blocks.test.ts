import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { type Block, blocks, ROOT } from './blocks.ts'

/** The test file that runs a block, by the block's language and a text in it. */
const RUN: readonly [language: string, mark: string, by: string][] = [
  ['sh', 'curl ', 'test/readme/shell.services.test.ts'],
  ['sh', 'ojs-rabbitmq key new', 'test/readme/shell.services.test.ts'],
  ['python', "ch.consume('ojs.queue.email')", 'test/readme/programs.services.test.ts'],
  ['ts', 'new NativeProducer(', 'test/readme/programs.services.test.ts'],
  ['ts', 'deliveredTo: to', 'test/sdk/readme.services.test.ts'],
  ['ts', 'await client.enqueueBatch(', 'test/sdk/readme.services.test.ts'],
  ['ts', 'worker.use(', 'test/sdk/readme.services.test.ts'],
  ['ts', 'client.bulk.cancel(', 'test/sdk/readme.services.test.ts'],
  ['ts', 'startGateway(', 'test/package/package.services.test.ts'],
  ['ts', 'startTestServer(', 'test/package/package.services.test.ts'],
  // A block with `npm start` and `npm test`: the former has this test, the latter runs right now.
  ['sh', 'npm start ', 'test/scripts/broker/local-broker.services.test.mjs'],
  ['sh', 'npm install ./ojs-rabbitmq-', 'test/package/package.services.test.ts'],
]

function runnerOf({ language, code }: Block): string | undefined {
  return RUN.find((row) => row[0] === language && code.includes(row[1]))?.[2]
}

it('every block of README and guide with a language is run by a test', () => {
  const notRun = blocks.filter((block) => block.language !== '' && runnerOf(block) === undefined)
  expect(notRun).toEqual([])
  for (const [, , file] of RUN) expect(existsSync(join(ROOT, file)), file).toBe(true)
})

it('every row of the table of this test matches a block', () => {
  for (const [language, mark] of RUN) {
    const isPrinted = blocks.some(
      (block) => block.language === language && block.code.includes(mark),
    )
    expect(isPrinted, mark).toBe(true)
  }
})

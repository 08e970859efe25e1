import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { type Block, blocks, ROOT } from './blocks.ts'

/** By language and a mark in the text: who runs it. */
const RUN: readonly [language: string, mark: string, by: string][] = [
  ['sh', 'curl ', 'test/readme/shell.services.test.ts'],
  ['sh', 'ojs-rabbitmq key new', 'test/readme/shell.services.test.ts'],
  ['python', "ch.consume('ojs.queue.email')", 'test/readme/programs.services.test.ts'],
  ['ts', 'new NativeProducer(', 'test/readme/programs.services.test.ts'],
  ['ts', 'await client.enqueueBatch(', 'test/sdk/readme.services.test.ts'],
  ['ts', 'worker.use(', 'test/sdk/readme.services.test.ts'],
  ['ts', 'startGateway(', 'test/package/package.services.test.ts'],
  // `npm start` finds or starts a broker, `npm test` is what runs now.
  ['sh', 'npm start ', 'test/scripts/local-broker.services.test.mjs'],
  ['sh', 'npm install ./ojs-rabbitmq-', 'test/package/package.services.test.ts'],
]

function runnerOf({ language, code }: Block): string | undefined {
  return RUN.find((row) => row[0] === language && code.includes(row[1]))?.[2]
}

it('every block of the README that could run is run by a test', () => {
  const left = blocks.filter((block) => block.language !== '' && runnerOf(block) === undefined)
  expect(left).toEqual([])
  for (const [, , file] of RUN) expect(existsSync(join(ROOT, file)), file).toBe(true)
})

it('and every row of the table is about such a block', () => {
  for (const [language, mark] of RUN) {
    const about = blocks.some((block) => block.language === language && block.code.includes(mark))
    expect(about, mark).toBe(true)
  }
})

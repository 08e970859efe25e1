import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { removeFolder } from '../../scripts/remove-folder.mjs'

// As fast as it can, until it cannot or has written for a second.
const WRITER = `
const { mkdirSync, writeFileSync } = require('node:fs')
const until = Date.now() + 1_000
process.stdout.write('writing')
for (let n = 0; Date.now() < until; n++) {
  mkdirSync(process.argv[1] + '/' + n)
  writeFileSync(process.argv[1] + '/' + n + '/file', '')
}
`

test('a folder goes although somebody still writes there', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'ojs-folder-'))
  const writer = spawn(process.execPath, ['-e', WRITER, dir], {
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  const ended = once(writer, 'exit')
  await once(writer.stdout, 'data')
  await removeFolder(dir)
  await ended
  expect(existsSync(dir)).toBe(false)
})

test('a folder that is not there is as good as removed', async () => {
  await removeFolder(join(tmpdir(), 'ojs-no-such-folder'))
})

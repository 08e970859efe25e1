import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { removeFolder } from '../../../scripts/process/remove-folder.mjs'

// Writes as fast as it can, until it fails or for a second.
const WRITER = `
const { mkdirSync, writeFileSync } = require('node:fs')
const until = Date.now() + 1_000
process.stdout.write('writing')
for (let n = 0; Date.now() < until; n++) {
  mkdirSync(process.argv[1] + '/' + n)
  writeFileSync(process.argv[1] + '/' + n + '/file', '')
}
`

test('removeFolder removes a folder into which another process still writes', async () => {
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

test('removeFolder accepts a folder that does not exist', async () => {
  await removeFolder(join(tmpdir(), 'ojs-no-such-folder'))
})

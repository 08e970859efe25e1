import { spawnSync } from 'node:child_process'
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, it } from 'vitest'
import { denyingPolicy } from '../../../scripts/process/debian-packages.mjs'

const dir = mkdtempSync(join(tmpdir(), 'ojs-policy-'))
afterAll(() => rmSync(dir, { recursive: true, force: true }))

const SAVED = join(dir, 'saved')
const now = Math.floor(Date.now() / 1000)

/** The exit code of policy-rc.d; 101 forbids the start of the service. */
function codeOf(expiresAt) {
  const file = join(dir, 'policy-rc.d')
  writeFileSync(file, denyingPolicy(expiresAt, SAVED))
  return spawnSync('/bin/sh', [file, 'rabbitmq-server', 'start']).status
}

it('policy-rc.d forbids the start of services during the installation', () => {
  expect(codeOf(now + 3600)).toBe(101)
})

it('policy-rc.d forbids nothing after its time, even if the installation was killed', () => {
  expect(codeOf(now - 1)).toBe(0)
})

it('policy-rc.d runs the previous policy after its time', () => {
  writeFileSync(SAVED, '#!/bin/sh\n[ "$1 $2" = "rabbitmq-server start" ] && exit 104\n')
  chmodSync(SAVED, 0o755)
  expect(codeOf(now - 1)).toBe(104)
  expect(codeOf(now + 3600)).toBe(101)
})

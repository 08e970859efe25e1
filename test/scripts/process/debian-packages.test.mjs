import { spawnSync } from 'node:child_process'
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, it } from 'vitest'
import { denyingPolicy, noticeOf } from '../../../scripts/process/debian-packages.mjs'

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

it('one line says what is installed as root, and how to avoid it', () => {
  const own = 'set OJS_AMQP_URL to a broker of your own, or install it yourself'
  const ofStart = noticeOf(['rabbitmq-server'], own)
  expect(ofStart).toMatch(
    /^Installing Debian's rabbitmq-server as root \(apt-get.*\)\. To avoid it: .*\.$/,
  )
  expect(ofStart).toContain(own)
  const ofTests = noticeOf(['rabbitmq-server', 'curl'])
  expect(ofTests).toMatch(
    /^Installing Debian's rabbitmq-server, curl as root .* To avoid it: install it yourself/,
  )
})

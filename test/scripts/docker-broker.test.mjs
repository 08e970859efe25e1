import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { hasDockerEngine, startDockerBroker } from '../../scripts/docker-broker.mjs'

let folder
let said

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'ojs-docker-'))
  said = ''
  vi.spyOn(process.stderr, 'write').mockImplementation((text) => {
    said += text
    return true
  })
})

afterEach(() => {
  vi.restoreAllMocks()
  vi.unstubAllEnvs()
  rmSync(folder, { recursive: true })
})

/** A `docker` that does what the shell's `lines` do with its arguments. */
function docker(lines) {
  const file = join(folder, 'docker')
  writeFileSync(file, `#!/bin/sh\ncd '${folder}'\n${lines}\n`)
  chmodSync(file, 0o755)
  vi.stubEnv('PATH', `${folder}:${process.env.PATH}`)
}

const { signal } = new AbortController()

it('says that an engine is of no use to it without the compose plugin', async () => {
  docker('case $1 in info) echo 26.1.5 ;; *) exit 1 ;; esac')
  expect(await hasDockerEngine(signal)).toBe(false)
  expect(said).toContain('`docker compose` is not installed')
})

it('says nothing where no engine runs', async () => {
  docker('exit 1')
  expect(await hasDockerEngine(signal)).toBe(false)
  expect(said).toBe('')
})

it('stops RabbitMQ where no second Ctrl-C of the terminal reaches, and says if it could not', async () => {
  docker(`case $* in
    *' stop '*) kill -s 0 -- -$$ && touch led; echo no engine; exit 1 ;;
    *) exit 1 ;;
  esac`)
  await expect(startDockerBroker(signal)).rejects.toThrow('docker compose failed')
  // It is the first of a process group, which a terminal's Ctrl-C does not reach.
  expect(existsSync(join(folder, 'led'))).toBe(true)
  expect(said).toContain('RabbitMQ in Docker may still run. docker compose failed:\nno engine')
})

it('leaves no RabbitMQ that a reboot brings back', async () => {
  docker('case $* in *" up "*) echo "$RABBITMQ_RESTART" >up; exit 1 ;; esac')
  await expect(startDockerBroker(signal)).rejects.toThrow('docker compose failed')
  expect(readFileSync(join(folder, 'up'), 'utf8')).toBe('on-failure\n')
})

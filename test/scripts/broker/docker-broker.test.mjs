import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { hasDockerEngine, startDockerBroker } from '../../../scripts/broker/docker-broker.mjs'

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

/** Puts a `docker` into the PATH that runs these lines of shell. */
function docker(lines) {
  const file = join(folder, 'docker')
  writeFileSync(file, `#!/bin/sh\ncd '${folder}'\n${lines}\n`)
  chmodSync(file, 0o755)
  vi.stubEnv('PATH', `${folder}:${process.env.PATH}`)
}

const { signal } = new AbortController()

it('hasDockerEngine says that the compose plugin is missing when an engine runs', async () => {
  docker('case $1 in info) echo 26.1.5 ;; *) exit 1 ;; esac')
  expect(await hasDockerEngine(signal)).toBe(false)
  expect(said).toContain('`docker compose` is not installed')
})

it('hasDockerEngine says nothing when no engine runs', async () => {
  docker('exit 1')
  expect(await hasDockerEngine(signal)).toBe(false)
  expect(said).toBe('')
})

it('startDockerBroker stops RabbitMQ in a process group that a second Ctrl-C does not reach, and says if that failed', async () => {
  docker(`case $* in
    *' stop '*) kill -s 0 -- -$$ && touch led; echo no engine; exit 1 ;;
    *) exit 1 ;;
  esac`)
  await expect(startDockerBroker(signal)).rejects.toThrow('docker compose failed')
  // The script leads a process group, which Ctrl-C of the terminal does not reach.
  expect(existsSync(join(folder, 'led'))).toBe(true)
  expect(said).toContain('RabbitMQ in Docker may still run. docker compose failed:\nno engine')
})

it('startDockerBroker starts RabbitMQ with a restart policy that does not bring it back after a reboot', async () => {
  docker('case $* in *" up "*) echo "$RABBITMQ_RESTART" >up; exit 1 ;; esac')
  await expect(startDockerBroker(signal)).rejects.toThrow('docker compose failed')
  expect(readFileSync(join(folder, 'up'), 'utf8')).toBe('on-failure\n')
})

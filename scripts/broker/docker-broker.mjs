import { createHash } from 'node:crypto'
import { ROOT } from '../paths.mjs'
import { nextFreePort, speaksAmqp } from '../process/ports.mjs'
import { Refusal, say, waitingFor } from '../process/progress.mjs'
import { run, tail } from '../process/run.mjs'

/** A missing engine fails at once. A user should not have to wait for one that is still waking up. */
const ENGINE_TIMEOUT_MS = 2_000

/**
 * True if a Docker engine answers within 2 s and the compose plugin is installed.
 * @param {AbortSignal} signal
 */
export async function hasDockerEngine(signal) {
  /** @type {import('node:child_process').SpawnOptions} */
  const limits = { timeout: ENGINE_TIMEOUT_MS, killSignal: 'SIGKILL', signal }
  const info = await run('docker', ['info', '--format', '{{.ServerVersion}}'], limits)
  if (info.signal) say(`Skipping Docker: no answer within ${ENGINE_TIMEOUT_MS / 1000} s.`)
  // Some clients exit with 0 without an engine; the server's version is then empty.
  if (info.code !== 0 || !/^\d+\./.test(info.output.trim())) return false
  const hasCompose = (await run('docker', ['compose', 'version'], limits)).code === 0
  if (!hasCompose) say('Skipping Docker: `docker compose` is not installed.')
  return hasCompose
}

/**
 * A project name for this folder only, like its ledger. With the name in docker-compose.yml, `npm start` in
 * another folder, or beside `docker compose up`, would take over the RabbitMQ of a running gateway, with its
 * data.
 */
const PROJECT = `ojs-rabbitmq-${createHash('sha256').update(ROOT).digest('hex').slice(0, 8)}`

/**
 * Starts the `rabbitmq` service of docker-compose.yml. Its data stays in a named volume.
 * @param {AbortSignal} signal
 * @returns {Promise<import('./find-broker.mjs').Broker>}
 */
export async function startDockerBroker(signal) {
  const port = await nextFreePort(5672)
  const settings = {
    RABBITMQ_PORT: String(port),
    RABBITMQ_MANAGEMENT_PORT: String(await nextFreePort(15_672)),
    RABBITMQ_PROMETHEUS_PORT: String(await nextFreePort(15_692)),
    // Not `unless-stopped`: RabbitMQ would start again after each reboot, without a gateway.
    RABBITMQ_RESTART: 'on-failure',
  }
  /** @type {(args: string[], options?: import('node:child_process').SpawnOptions) => ReturnType<typeof run>} */
  const compose = (args, options = {}) =>
    run('docker', ['compose', '--project-name', PROJECT, ...args], {
      cwd: ROOT,
      env: { ...process.env, ...settings },
      ...options,
    })
  const stop = async () => {
    // In a session of its own: a second Ctrl-C would end this command, and RabbitMQ would go on running.
    const { code, output } = await waitingFor('RabbitMQ to stop', () =>
      compose(['stop', 'rabbitmq'], { detached: true }),
    )
    if (code !== 0) say(`RabbitMQ in Docker may still run. docker compose failed:\n${tail(output)}`)
  }
  say(
    `Starting RabbitMQ with docker compose --project-name ${PROJECT} (the first time it downloads the image).`,
  )
  try {
    await waitingFor('RabbitMQ in Docker to start', async () => {
      const up = await compose(['up', '--detach', '--wait', 'rabbitmq'], { signal })
      if (up.code !== 0) throw new Refusal(`docker compose failed:\n${tail(up.output)}`)
    })
    if (!(await speaksAmqp(port))) throw new Refusal(`RabbitMQ in Docker is not on port ${port}`)
  } catch (error) {
    await stop()
    throw error
  }
  const url = `amqp://guest:guest@127.0.0.1:${port}/%2Fojs`
  return { url, origin: 'the rabbitmq service of docker-compose.yml', stop }
}

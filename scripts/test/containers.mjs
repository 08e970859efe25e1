/** `npm test -- --containers`: the shared servers of the tests in Docker, by testcontainers. */
import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { ROOT } from '../paths.mjs'

export const CONTAINERS = '--containers'

/** @typedef {{ rabbitmq: string, postgres: string }} Images */

/** What is newest, and the oldest that is supported. */
const IMAGES = 'rabbitmq:4.3-management+postgres:18,rabbitmq:3.13-management+postgres:14'
const START_TIMEOUT_MS = 300_000
/** As the shared node of this machine: tests wait for counts, and none asks for rates. */
const CONF = 'collect_statistics_interval = 500\nmanagement.rates_mode = none\n'

/**
 * `OJS_TEST_IMAGES` names others, in the same form.
 * @returns {Images[]}
 */
export function imagePairs() {
  return (process.env['OJS_TEST_IMAGES'] || IMAGES).split(',').map((pair) => {
    const [rabbitmq = '', postgres = ''] = pair.split('+')
    return { rabbitmq, postgres }
  })
}

/** @param {Images} images */
export async function startContainers(images) {
  /** @type {typeof import('../../src/testing/rabbitmq-container.ts')} */
  const { startRabbitMqContainer } = await import(
    pathToFileURL(join(ROOT, 'dist', 'testing', 'rabbitmq-container.js')).href
  )
  const options = { image: images.rabbitmq, timeoutMs: START_TIMEOUT_MS, conf: CONF }
  const broker = await startRabbitMqContainer(options)
  try {
    const postgres = await startPostgres(images.postgres)
    const stop = () => Promise.all([broker.stop(), postgres.stop()])
    const { amqpUrl, managementPort } = broker
    return { broker: { url: () => amqpUrl, managementPort }, postgres, stop }
  } catch (error) {
    await broker.stop()
    throw error
  }
}

/** @param {string} image */
async function startPostgres(image) {
  const { GenericContainer, Wait } = await import('testcontainers')
  const password = randomUUID()
  const container = await new GenericContainer(image)
    .withEnvironment({ POSTGRES_PASSWORD: password })
    .withCommand(['postgres', '-c', 'fsync=off'])
    .withExposedPorts(5432)
    // Its set-up runs a first server, which ends again.
    .withWaitStrategy(Wait.forLogMessage(/ready to accept connections/, 2))
    .withStartupTimeout(START_TIMEOUT_MS)
    .start()
  const at = `${container.getHost()}:${container.getMappedPort(5432)}`
  return {
    url: () => `postgres://postgres:${password}@${at}/postgres`,
    stop: () => container.stop(),
  }
}

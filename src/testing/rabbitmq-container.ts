/** RabbitMQ in Docker, by `testcontainers`, which is loaded only here: it is an optional peer of the package. */

export interface RabbitMqContainer {
  /** With the virtual host `/ojs`. */
  readonly amqpUrl: string
  /** Of the management API, on 127.0.0.1. */
  readonly managementPort: number
  stop(): Promise<unknown>
}

export interface ContainerOptions {
  image: string | undefined
  timeoutMs: number
  /** More lines of `rabbitmq.conf`. */
  conf?: string
}

/** The minor version that docker-compose.yml has. */
const IMAGE = 'rabbitmq:4.3-management'

/** Read by official images and by Debian's alike, whatever they make of environment variables. */
const CONF = 'loopback_users = none\ndefault_vhost = /ojs\n'

/**
 * Resolves when RabbitMQ takes connections.
 * @throws {Error} without `testcontainers`, a Docker engine or the image
 */
export async function startRabbitMqContainer({
  image = IMAGE,
  timeoutMs,
  conf = '',
}: ContainerOptions): Promise<RabbitMqContainer> {
  const { GenericContainer, Wait } = await testcontainers()
  const container = await new GenericContainer(image)
    .withExposedPorts(5672, 15_672)
    .withCopyContentToContainer([
      { content: `${CONF}${conf}\n`, target: '/etc/rabbitmq/conf.d/90-ojs.conf', mode: 0o644 },
    ])
    .withWaitStrategy(Wait.forListeningPorts())
    .withStartupTimeout(timeoutMs)
    .start()
  const at = `${container.getHost()}:${container.getMappedPort(5672)}`
  return {
    amqpUrl: `amqp://guest:guest@${at}/%2Fojs`,
    managementPort: container.getMappedPort(15_672),
    stop: () => container.stop(),
  }
}

async function testcontainers(): Promise<typeof import('testcontainers')> {
  try {
    return await import('testcontainers')
  } catch (error) {
    throw new Error(
      'RabbitMQ in Docker needs the package testcontainers: npm install --save-dev testcontainers',
      { cause: error },
    )
  }
}

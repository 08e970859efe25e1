/** The public entry `ojs-rabbitmq/worker`: RabbitMQ without HTTP. Node.js only. */
export { type AmqpSourceOptions, amqpSource } from './amqp-source.ts'
export type { AmqpOptions } from './options.ts'

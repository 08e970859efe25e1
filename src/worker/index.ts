/** The public entry `ojs-rabbitmq/worker`: RabbitMQ without HTTP. Node.js only. */
export { type AmqpSourceOptions, amqpSource } from './amqp-source.ts'
export { NativeProducer } from './native-producer.ts'
export { NativeWorker, type NativeWorkerOptions } from './native-worker.ts'
export type { AmqpOptions } from './options.ts'

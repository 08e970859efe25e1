export interface PrivateBrokerOptions {
  /** Folder with `rabbitmq-server` and `rabbitmqctl`. */
  sbin: string
  /** Everything of the node is below it: data, logs, cookie, configuration. */
  dir: string
  /** AMQP port; default: a free one. */
  port?: number
  /** For example `rabbitmq_management`, `rabbitmq_prometheus`. */
  plugins?: readonly string[]
  /** Lines for rabbitmq.conf; they win over the defaults. */
  conf?: string
  /** The Erlang term of advanced.config. */
  advanced?: string
  /** Default vhost, created at the first start; default `/ojs`. */
  vhost?: string
  /** Nobody needs its data after `stop`, which then takes no time (else 1–6 s). */
  isDisposable?: boolean
  /** Flags of the Erlang machine; default: a small one on one CPU, with one scheduler, without busy waiting. */
  erlArgs?: string
}

/** A RabbitMQ node of the installed package with its own data, cookie, ports and epmd. */
export class PrivateBroker {
  constructor(options: PrivateBrokerOptions)
  readonly port: number
  readonly managementPort: number | undefined
  readonly pid: number | undefined
  readonly epmdPid: number | undefined
  readonly dir: string
  readonly exited: Promise<unknown>
  start(signal?: AbortSignal): Promise<this>
  url(vhost?: string): string
  kill9(): Promise<void>
  restart(signal?: AbortSignal): Promise<void>
  stop(): Promise<void>
  ctl(args: readonly string[]): Promise<string>
  evaluate(expression: string): Promise<string>
}
